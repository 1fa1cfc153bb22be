/**
 * The hook that reports attempts and holds to a tracer (`tracing/opentelemetry.ts`). Without a tracer, its only cost is
 * that an acquire reads a field of its client.
 */

import type { Lease } from './lease';
import type { Leases } from './leases';

/** The trace hook of a client. */
export interface TraceHook {
  /**
   * Reports an attempt to acquire the locks at these paths, and the resulting holds. The leases are in the order of the
   * paths; with a single path, all leases belong to it. `null` means that the slot is already recorded. `tries` is true
   * if the attempt does not wait.
   */
  wait<Held extends Lease | Leases | null>(paths: readonly string[], tries: boolean, acquire: () => Promise<Held>): Promise<Held>;
}

/** The hook that receives the current call; `null` if the call is not reported. */
let called: TraceHook | null | undefined;

/**
 * Calls a method of a lock, and reports the attempt that it begins only to `tracing`. The attempt must begin before the
 * method returns.
 */
export function callTraced<T>(tracing: TraceHook | null, call: () => T): T {
  const outer = called;
  called = tracing;
  try {
    return call();
  } finally {
    called = outer;
  }
}

/**
 * Calls a method again for an attempt that is already reported. The repeated call keeps the method at the top of error
 * stacks.
 */
export function untraced<T>(call: () => T): T {
  return callTraced(null, call);
}

/**
 * Returns the hook for the attempt that begins now. `inner` returns whether the attempt re-enters a lock that its owner
 * holds.
 */
export function traceHookOf(client: { readonly tracing: TraceHook | undefined } | undefined, inner: () => boolean): TraceHook | undefined {
  if (called !== undefined) return called ?? undefined;
  // A re-entry begins no hold.
  return client?.tracing === undefined || inner() ? undefined : client.tracing;
}
