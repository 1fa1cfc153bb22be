/** Waits for the aborts of signals. */

/** What to do when a signal aborts. */
type Then = () => void;

/** For each signal that something waits for: everything that does, and its one listener. */
const waiting = new WeakMap<AbortSignal, { all: Set<Then>; listener: Then }>();

/**
 * Calls `then` once when the signal aborts, unless the function that this returns was called before. However many wait
 * for one signal, it has one listener: Node warns of a leak from the eleventh on. With the last one the listener goes.
 */
export function onAbort(signal: AbortSignal, then: Then): Then {
  const { all, listener } = waiting.get(signal) ?? listen(signal);
  // One of its own, so that one function can wait more than once.
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
      // One may have ended another.
      if (all.delete(then)) then();
    }
  };
  const entry = { all, listener };
  waiting.set(signal, entry);
  signal.addEventListener('abort', listener, { once: true });
  return entry;
}
