/** What the library has to tell, for a program's log. */

import { NativeListener } from '../native';

import { checkFunction, checkObject } from './check';
import { BadArgumentError } from './errors';
import { call } from './listeners';

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;

/** How grave an event is, from the gravest on. */
export type LogLevel = (typeof LEVELS)[number];

/** Something that happened. */
export interface LogRecord {
  readonly level: LogLevel;
  /** Where it comes from: `zklock::…`, or `zookeeper_client::…` for warnings of the client below it. */
  readonly target: string;
  /** When it happened, which may be a while before it is told. */
  readonly time: Date;
  /** What happened. */
  readonly message: string;
  /** To what: `path`, `node`, `session`, `reason` and so on. */
  readonly fields: Readonly<Record<string, string>>;
}

export type LogListener = (record: LogRecord) => void;

export interface LogOptions {
  /** The least grave level to hear of. Default: `info`. */
  level?: LogLevel | undefined;
}

// Each with the place of its level, in the order in which they were added.
const listeners = new Map<LogListener, number>();

// Made when somebody listens for the first time.
let source: NativeListener | undefined;

function update(): void {
  if (listeners.size > 0) source ??= new NativeListener(handOn);
  source?.setLevel(LEVELS[Math.max(-1, ...listeners.values())]);
}

function handOn(): void {
  if (source === undefined) return;
  const { records, dropped } = source.take();
  for (const { level, time, fields, ...rest } of records) {
    tell({ ...rest, level: level as LogLevel, time: new Date(time), fields: Object.fromEntries(fields) });
  }
  if (dropped > 0) {
    const message = 'events came too fast to be told';
    tell({ level: 'warn', target: 'zklock', time: new Date(), message, fields: { dropped: String(dropped) } });
  }
}

function tell(record: LogRecord): void {
  for (const [listener, wanted] of [...listeners]) {
    if (LEVELS.indexOf(record.level) <= wanted) call(listener, record);
  }
}

/**
 * Calls `listener` with what the library has to tell of all clients of the process. It is called on this thread, and
 * does not keep the process alive. A worker thread listens for itself, and hears of the whole process too.
 *
 * What a listener throws is an uncaught exception. While it blocks the thread, at most 1 000 events are kept; the
 * others are counted. A function that listens already is given the new level.
 *
 * @throws {BadArgumentError} for another event, or a level that does not exist.
 */
export function on(event: 'log', listener: LogListener, options: LogOptions = {}): void {
  checkEvent(event);
  checkFunction('listener', listener);
  checkObject('options', options);
  const { level = 'info' } = options;
  const wanted = LEVELS.indexOf(level);
  if (wanted < 0) throw new BadArgumentError(`level: must be one of ${LEVELS.join(', ')}`);
  listeners.set(listener, wanted);
  update();
}

/** Ends what {@link on} began. Does nothing for a function that does not listen. */
export function off(event: 'log', listener: LogListener): void {
  checkEvent(event);
  listeners.delete(listener);
  update();
}

function checkEvent(event: string): void {
  if (event !== 'log') throw new BadArgumentError("event: must be 'log'");
}
