/** Pauses between two attempts. */

import type { NativeStates } from '../addon';

import { onAbort } from './abort';
import { run } from './bridge';
import type { Pending } from './keep-alive';
import { clearTimeout, setTimeout } from './timers';

/**
 * Waits for `time` ms, or until the client of `states` is closed. Rejects with the signal's reason if the signal
 * aborts.
 */
export async function pause(states: NativeStates, time: number, pending: Pending, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const over = new AbortController();
  const end = () => {
    over.abort();
  };
  const timer = setTimeout(end, time);
  // `pending` decides whether the pause keeps the process alive.
  timer.unref();
  const stopWaiting = signal && onAbort(signal, end);
  try {
    let state: string | null;
    do {
      state = await run<string | null>((bridge) => states.next(bridge), pending, over.signal);
    } while (state !== null);
  } catch (error) {
    if (!over.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    stopWaiting?.();
  }
  signal?.throwIfAborted();
}
