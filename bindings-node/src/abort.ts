/** Shares one abort listener among all callers that wait for the same `AbortSignal`. */

/** Callback that runs when a signal aborts. */
type Then = () => void;

/** The pending callbacks of each signal, and the single listener that calls them. */
const waiting = new WeakMap<AbortSignal, { all: Set<Then>; listener: Then }>();

/**
 * Calls `then` once when the signal aborts. Returns a function that cancels the call.
 *
 * All callbacks for a signal share one listener, because Node warns of a leak if a signal has more than ten. The
 * listener is removed together with the last callback.
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
