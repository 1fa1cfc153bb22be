/** The async context of listeners: what `AsyncLocalStorage` has where they are registered. */

import { AsyncResource } from 'node:async_hooks';

/**
 * The listener, in the async context of this call: whatever calls it is the native half's, whose own context is that of
 * whichever operation began first.
 */
export function inContext<Given extends unknown[]>(listener: (...given: Given) => unknown): (...given: Given) => unknown {
  const resource = new AsyncResource('ZKLOCK_LISTENER');
  return function (this: unknown, ...given: Given): unknown {
    return resource.runInAsyncScope(listener, this, ...given);
  };
}
