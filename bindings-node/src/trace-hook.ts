/**
 * The hook that reports attempts and holds to a tracer, `tracing/opentelemetry.ts`, if the program asked for one. Without
 * a tracer an acquire costs one look at a field of its client more.
 */

import type { Lease } from './lease';
import type { Leases } from './leases';

/** The hook of a client. */
export interface TraceHook {
  /**
   * Tells of an attempt to acquire what is at these paths, and of the holds that it leads to: their leases are in the
   * order of the paths, or all of the only one; `null` stands for a slot that is recorded already. `tries`: without a
   * wait.
   */
  wait<Held extends Lease | Leases | null>(paths: readonly string[], tries: boolean, acquire: () => Promise<Held>): Promise<Held>;
}

/** Who is told of what is called now; `null` for nobody. */
let called: TraceHook | null | undefined;

/** Calls a method of a lock. The attempt that it begins, before it returns, is told to `tracing` and nobody else. */
export function callTraced<T>(tracing: TraceHook | null, call: () => T): T {
  const outer = called;
  called = tracing;
  try {
    return call();
  } finally {
    called = outer;
  }
}

/** Calls a method again, for an attempt that has been told. So what it throws has it at the head of its stack. */
export function untraced<T>(call: () => T): T {
  return callTraced(null, call);
}

/** Who is told of the attempt that begins now. `inner`: whether it would be one of an owner that holds the lock. */
export function traceHookOf(client: { readonly tracing: TraceHook | undefined } | undefined, inner: () => boolean): TraceHook | undefined {
  if (called !== undefined) return called ?? undefined;
  // A re-entry begins no hold.
  return client?.tracing === undefined || inner() ? undefined : client.tracing;
}
