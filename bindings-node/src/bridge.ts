/** Runs operations of the native addon, and returns promises for their outcomes. */

import { Bridge, type NativeFailure } from '../addon';

import { onAbort } from './abort';
import { errorOf, native, trimStack } from './errors';
import { KeepAlive, type Pending } from './keep-alive';
import { inMicrotask } from './timers';

/** Receives the outcome of an operation: its value, or its error. */
type Settle = (value: unknown, failure: NativeFailure | undefined) => void;

/** The receivers of the outcomes, by operation id. */
const waiting = new Map<number, Settle>();
/** Callbacks of `watch()`, which receive the value of an operation when it ends, by operation id. */
const watching = new Map<number, (value: unknown) => void>();

const bridge = new Bridge((id, value, failure) => {
  const settle = waiting.get(id);
  waiting.delete(id);
  settle?.(value, failure);
});

/**
 * Returns the receiver of the outcome for a callback of `watch()`. A closure in `watch()` itself would capture `start`,
 * and thereby keep the watched lease.
 */
function watcherOf(id: number): Settle {
  // Call each callback in its own microtask, because it can run user code, which can throw or abort another operation.
  // If it threw here, the remaining outcomes would not be delivered, and a lease among them would never be released.
  return (value) => inMicrotask(() => callWatcher(id, value));
}

function callWatcher(id: number, value: unknown): void {
  const then = watching.get(id);
  watching.delete(id);
  then?.(value);
}

/** Calls `make` with the bridge, for native calls that are not operations but need the bridge of their thread. */
export function withBridge<T>(make: (bridge: Bridge) => T): T {
  return native(() => make(bridge), withBridge);
}

/** Starts an operation and returns its id. */
export type Start = (bridge: Bridge) => number;

/** Performs an action immediately and returns its result, or starts an operation and returns its id. */
type StartOrDo<T> = (bridge: Bridge) => number | T;

/** Keeps the process alive during operations that end soon by themselves: connect, release and close. */
export const untilDone = new KeepAlive();

/**
 * Runs an operation to its end and returns its value. If the signal aborts, this function cancels the operation,
 * releases a lock that the operation may have acquired, and rejects with the signal's reason.
 */
export async function run<T>(start: StartOrDo<T>, pending: Pending, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted();
  const id = native(() => start(bridge), run);
  if (typeof id !== 'number') return id;
  let stopWaiting: (() => void) | undefined;
  let failure: NativeFailure | undefined;
  pending.begin();
  try {
    const value = await new Promise<unknown>((resolve, reject) => {
      waiting.set(id, (value, failed) => {
        failure = failed;
        resolve(value);
      });
      if (signal === undefined) return;
      stopWaiting = onAbort(signal, () => {
        giveUp(id);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller chose the reason
        reject(signal.reason);
      });
    });
    if (failure !== undefined) {
      // Create the error here, not where the outcome arrives, so that the stack shows the caller.
      const { code, message, details } = failure;
      throw trimStack(errorOf(code, message, details), run);
    }
    return value as T;
  } finally {
    stopWaiting?.();
    pending.end();
  }
}

/**
 * Calls `then` with the value of an operation when it ends, and returns the operation's id. Does not keep the process
 * alive.
 */
export function watch(start: Start, then: (value: unknown) => void): number {
  const id = native(() => start(bridge), watch);
  watching.set(id, then);
  waiting.set(id, watcherOf(id));
  return id;
}

/** Cancels an operation, so that its outcome is not reported. Does nothing if the operation has ended. */
export function giveUp(id: number): void {
  waiting.delete(id);
  watching.delete(id);
  bridge.cancel(id);
}
