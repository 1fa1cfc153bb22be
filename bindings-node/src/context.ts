/**
 * Preserves the async context of listeners: they see the `AsyncLocalStorage` values of the code that registered them.
 */

import { AsyncResource } from 'node:async_hooks';

/**
 * Binds the listener to the async context of this call. Without this, the listener would run in the context of an
 * unrelated operation, because the native addon delivers all outcomes in the context of the first one.
 */
export function inContext<Given extends unknown[]>(listener: (...given: Given) => unknown): (...given: Given) => unknown {
  const resource = new AsyncResource('ZKLOCK_LISTENER');
  return function (this: unknown, ...given: Given): unknown {
    return resource.runInAsyncScope(listener, this, ...given);
  };
}
