/**
 * Preserves the async context of listeners: they see the `AsyncLocalStorage` values of the place that registered them.
 */

import { AsyncResource } from 'node:async_hooks';

/**
 * Binds the listener to the async context of this call. Without this, the native addon would call it in the context of
 * whichever operation began first.
 */
export function inContext<Given extends unknown[]>(listener: (...given: Given) => unknown): (...given: Given) => unknown {
  const resource = new AsyncResource('ZKLOCK_LISTENER');
  return function (this: unknown, ...given: Given): unknown {
    return resource.runInAsyncScope(listener, this, ...given);
  };
}
