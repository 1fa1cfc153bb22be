/** Shares one abort listener among all callers that wait for the same `AbortSignal`. */

/** Callback that runs when a signal aborts. */
type Then = () => void;

/** The pending callbacks and the single listener of each signal that is in use. */
const waiting = new WeakMap<AbortSignal, { all: Set<Then>; listener: Then }>();

/**
 * Calls `then` once when the signal aborts. The returned function cancels the call.
 *
 * A signal has one listener, however many callbacks wait for it, because Node warns of a leak from the eleventh
 * listener on. The listener is removed together with the last callback.
 */
export function onAbort(signal: AbortSignal, then: Then): Then {
  const { all, listener } = waiting.get(signal) ?? listen(signal);
  // A new function for each call, so that the same `then` can be registered more than once.
  const mine = () => then();
  all.add(mine);
  return () => {
    if (all.delete(mine) && all.size === 0) {
      waiting.delete(signal);
      signal.removeEventListener('abort', listener);
    }
  };
}

function listen(signal: AbortSignal): { all: Set<Then>; listener: Then } {
  const all = new Set<Then>();
  const listener = () => {
    waiting.delete(signal);
    for (const then of [...all]) {
      // An earlier callback may have canceled this one.
      if (all.delete(then)) then();
    }
  };
  const entry = { all, listener };
  waiting.set(signal, entry);
  signal.addEventListener('abort', listener, { once: true });
  return entry;
}
