/**
 * Timers and microtasks of Node's own. Fake timers, which tests put in their place, run out only when a test says so: an
 * interval that they cannot clear would keep the process alive for ever, and a loss would never be told.
 */

import * as timers from 'node:timers';

// Looked up once, because fake timers replace the functions of this module too. Not those of `globalThis`: a test runner
// may have replaced those before it loads this package.
export const { setInterval, clearInterval, setTimeout, clearTimeout, setImmediate } = timers;

/** Has an error be an uncaught exception. */
export function throwUncaught(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/** Calls `then` in a microtask, as `queueMicrotask` does: that one can be replaced by fake timers, a promise cannot. */
export function later(then: () => void): void {
  Promise.resolve().then(then).catch(throwUncaught);
}
