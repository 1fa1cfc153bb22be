/** Delivers the library's log events to the program's listeners. */

import { NativeListener } from '../addon';

import { watchBlocks } from './blocks';
import { BadArgumentError } from './errors';
import { call } from './events';
import { checkFunction, checkOptions, checkString } from './validate';

// Node's own `Date`, even if a test replaces the global later.
const { Date } = globalThis;

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;

/** Severity of a log event, most severe first. */
export type LogLevel = (typeof LEVELS)[number];

/** A log event. */
export interface LogRecord {
  readonly level: LogLevel;
  /** The source of the event: `zklock::…`, or `zookeeper_client::…` for warnings from the underlying client. */
  readonly target: string;
  /** When the event happened, which may be some time before the listener is called. */
  readonly time: Date;
  /** The log message. */
  readonly message: string;
  /** Details such as `path`, `node`, `session` and `reason`. Times (`waited`, `lasted`) are numbers in ms. */
  readonly fields: Readonly<Record<string, string | number | boolean>>;
}

/** A listener for {@link on}. */
export type LogListener = (record: LogRecord) => void;

/** Options of {@link on}. */
export interface LogOptions {
  /** The least severe level to listen to. Default: `info`. */
  level?: LogLevel | undefined;
}

// Maps each listener to the index of its level, in the order in which the listeners were added.
const listeners = new Map<LogListener, number>();

// Created when the first listener is added.
let source: NativeListener | undefined;

function update(): void {
  if (listeners.size > 0) {
    source ??= new NativeListener(forwardEvents);
    watchBlocks();
  }
  source?.setLevel(LEVELS[Math.max(-1, ...listeners.values())]);
}

function forwardEvents(): void {
  if (source === undefined) return;
  const { records, dropped } = source.take();
  for (const { level, time, fields, ...rest } of records) {
    callListeners({ ...rest, level: level as LogLevel, time: new Date(time), fields: Object.fromEntries(fields) });
  }
  if (dropped > 0) {
    const message = 'events arrived too fast, and some were dropped';
    callListeners({ level: 'warn', target: 'zklock', time: new Date(), message, fields: { dropped } });
  }
}

function callListeners(record: LogRecord): void {
  for (const [listener, wanted] of [...listeners]) {
    if (LEVELS.indexOf(record.level) <= wanted) call(listener, record);
  }
}

/**
 * Calls `listener` with the log events of all clients of the process, on this thread. Does not keep the process alive.
 * A worker thread has its own listeners, which also receive the events of the whole process.
 *
 * An exception from a listener becomes an uncaught exception. While the thread is blocked, at most 1 000 events are
 * kept, and further events are only counted. Adding a listener again changes its level.
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
