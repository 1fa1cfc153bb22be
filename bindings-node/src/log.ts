/** The library's events, for a program's log. */

import { NativeListener } from '../addon';

import { watchBlocks } from './blocks';
import { BadArgumentError } from './errors';
import { call } from './events';
import { checkFunction, checkOptions, checkString } from './validate';

// Node's own, whatever a test puts in its place later.
const { Date } = globalThis;

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;

/** How severe an event is, most severe first. */
export type LogLevel = (typeof LEVELS)[number];

/** An event. */
export interface LogRecord {
  readonly level: LogLevel;
  /** Where it comes from: `zklock::…`, or `zookeeper_client::…` for warnings from the underlying client. */
  readonly target: string;
  /** When it happened, which may be some time before the listener is called. */
  readonly time: Date;
  /** What happened. */
  readonly message: string;
  /** Details: `path`, `node`, `session`, `reason` and so on. Times (`waited`, `lasted`) are numbers, in ms. */
  readonly fields: Readonly<Record<string, string | number | boolean>>;
}

/** What {@link on} calls. */
export type LogListener = (record: LogRecord) => void;

/** What to listen to. */
export interface LogOptions {
  /** The least severe level to listen to. Default: `info`. */
  level?: LogLevel | undefined;
}

// With the index of their levels, in the order in which they were added.
const listeners = new Map<LogListener, number>();

// Created for the first listener.
let source: NativeListener | undefined;

function update(): void {
  if (listeners.size > 0) {
    source ??= new NativeListener(handOn);
    watchBlocks();
  }
  source?.setLevel(LEVELS[Math.max(-1, ...listeners.values())]);
}

function handOn(): void {
  if (source === undefined) return;
  const { records, dropped } = source.take();
  for (const { level, time, fields, ...rest } of records) {
    tell({ ...rest, level: level as LogLevel, time: new Date(time), fields: Object.fromEntries(fields) });
  }
  if (dropped > 0) {
    const message = 'events came too fast, and some were dropped';
    tell({ level: 'warn', target: 'zklock', time: new Date(), message, fields: { dropped } });
  }
}

function tell(record: LogRecord): void {
  for (const [listener, wanted] of [...listeners]) {
    if (LEVELS.indexOf(record.level) <= wanted) call(listener, record);
  }
}

/**
 * Calls `listener` with the events of all clients of the process, on this thread. Does not keep the process alive. A
 * worker thread has listeners of its own, which are also called with the events of the whole process.
 *
 * What a listener throws is an uncaught exception. While the thread is blocked, at most 1 000 events are kept; further
 * ones are only counted. Adding a listener again changes its level.
 *
 * @throws {@link BadArgumentError} for any other event, or a level that does not exist.
 *
 * @example
 * on('log', ({ level, message, fields }) => console.error(level, message, fields), { level: 'warn' });
 */
export function on(event: 'log', listener: LogListener, options: LogOptions = {}): void {
  checkEvent(event);
  checkFunction('listener', listener);
  checkOptions<LogOptions>(options, { level: checkString });
  const { level = 'info' } = options;
  const wanted = LEVELS.indexOf(level);
  if (wanted < 0) throw new BadArgumentError(`level: must be one of ${LEVELS.join(', ')}`);
  listeners.set(listener, wanted);
  update();
}

/**
 * Removes a listener that {@link on} added. Does nothing for any other function.
 *
 * @example
 * const listener = ({ message }) => console.error(message);
 * on('log', listener);
 * off('log', listener);
 */
export function off(event: 'log', listener: LogListener): void {
  checkEvent(event);
  listeners.delete(listener);
  update();
}

function checkEvent(event: string): void {
  if (event !== 'log') throw new BadArgumentError("event: must be 'log'");
}
