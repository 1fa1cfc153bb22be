/** Runs the operations of the native half as promises. */

import { Bridge, type Settled } from '../addon';

import { onAbort } from './abort';
import { errorOf, native, raisedBelow } from './errors';
import { KeepAlive, type Pending } from './keep-alive';
import { later } from './timers';

/** What awaits the end of an operation. */
const waiting = new Map<number, (settled: Settled) => void>();
/** What is called with the value of an operation when it ends. */
const watching = new Map<number, (value: Settled['value']) => void>();

const bridge = new Bridge(() => {
  for (const settled of bridge.take()) {
    const { id } = settled;
    waiting.get(id)?.(settled);
    waiting.delete(id);
    // Later, and each on its own: it runs the caller's code, which may throw, or abort what has just ended. Then other
    // outcomes would not be delivered, and a lease among them would never be released.
    if (watching.has(id)) later(() => tell(settled));
  }
});

function tell({ id, value }: Settled): void {
  const then = watching.get(id);
  watching.delete(id);
  then?.(value);
}

/** For what is not an operation, but needs to know the thread that it belongs to. */
export function withBridge<T>(make: (bridge: Bridge) => T): T {
  return native(() => make(bridge), withBridge);
}

/** Starts an operation and returns its id. */
export type Start = (bridge: Bridge) => number;

/** Does something at once and returns what it came to, or starts an operation. */
type StartOrDo<T> = (bridge: Bridge) => number | T;

/** For operations that end soon by themselves: connect, release and close. */
export const untilDone = new KeepAlive();

/**
 * Runs an operation to its end and returns its value. An abort gives the operation up, and drops what it may already
 * have acquired, before the promise rejects with the signal's reason.
 */
export async function run<T>(start: StartOrDo<T>, pending: Pending, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted();
  const id = native(() => start(bridge), run);
  if (typeof id !== 'number') return id;
  let stopWaiting: (() => void) | undefined;
  pending.begin();
  try {
    const { value, code, message, details } = await new Promise<Settled>((resolve, reject) => {
      waiting.set(id, resolve);
      if (signal === undefined) return;
      stopWaiting = onAbort(signal, () => {
        giveUp(id);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller chose the reason
        reject(signal.reason);
      });
    });
    if (code !== undefined) {
      // Created here and not where the outcome arrives, so that the stack shows the caller.
      throw raisedBelow(errorOf(code, message ?? '', details), run);
    }
    return value as T;
  } finally {
    stopWaiting?.();
    pending.end();
  }
}

/**
 * Calls `then` with the value of an operation when it ends; does not keep the process alive. Returns the operation's
 * id.
 */
export function watch(start: Start, then: (value: Settled['value']) => void): number {
  const id = native(() => start(bridge), watch);
  watching.set(id, then);
  return id;
}

/** Gives an operation up: its end is not reported. Does nothing if it has ended. */
export function giveUp(id: number): void {
  waiting.delete(id);
  watching.delete(id);
  bridge.cancel(id);
}
