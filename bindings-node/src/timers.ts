/**
 * Node's own timers and microtasks. A test can replace the global ones with fake timers, which run only when the test
 * advances them. If this package used the fake timers, an interval that is not cleared would keep the process alive
 * forever, and losses would not be reported.
 */

import * as timers from 'node:timers';

// Looked up once, because fake timers also replace the functions of `node:timers`. Does not use `globalThis`, because a
// test runner may have replaced its functions before it loads this package.
export const { setInterval, setTimeout, clearTimeout, setImmediate } = timers;

/** Raises an error as an uncaught exception. */
export function throwUncaught(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/** Calls `then` in a microtask. Uses a promise because fake timers can replace `queueMicrotask`, but not promises. */
export function inMicrotask(then: () => void): void {
  Promise.resolve().then(then).catch(throwUncaught);
}
