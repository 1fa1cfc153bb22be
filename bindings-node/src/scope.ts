/** Who may re-enter: what runs inside a live `using` scope of the same client and path. */

import { AsyncLocalStorage } from 'node:async_hooks';

import type { Client } from './client';
import { type Lease, leaseInternals } from './lease';

interface Scope {
  readonly lease: Lease;
  live: boolean;
  outer: Scope | undefined;
}

const current = new AsyncLocalStorage<Scope>();

/**
 * The enclosing scopes, innermost first, without those that have ended: a callback may outlive its scope. Those are
 * unlinked on the way, or a timer that takes a lock and sets the next timer would grow a chain for ever.
 */
function* liveScopes(): Generator<Scope> {
  let inner: Scope | undefined;
  for (let scope = current.getStore(); scope !== undefined; scope = scope.outer) {
    if (!scope.live) continue;
    if (inner !== undefined) inner.outer = scope;
    yield scope;
    inner = scope;
  }
  if (inner !== undefined) inner.outer = undefined;
}

/** The lease of the innermost live scope of a client and path. */
export function innermostLease({ client, path }: { client: Client; path: string }): Lease | undefined {
  for (const { lease } of liveScopes()) {
    if (leaseInternals(lease).client === client && lease.path === path) return lease;
  }
  return undefined;
}

/** Runs `body` in a scope of `lease`, which ends when the promise of `body` is settled. */
export async function runInScope<T>(lease: Lease, body: () => Promise<T>): Promise<T> {
  const [outer] = liveScopes();
  const scope: Scope = { lease, live: true, outer };
  try {
    return await current.run(scope, body);
  } finally {
    scope.live = false;
  }
}
