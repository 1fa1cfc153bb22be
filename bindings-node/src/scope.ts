/**
 * Tracks live `using` scopes. Code inside a live scope of the same client and path may re-enter its lock. Other
 * programs see the owner of the outermost live scope.
 */

import { AsyncLocalStorage } from 'node:async_hooks';

import { clientOfLease, type Lease } from './lease';

export interface Scope {
  readonly lease: Lease;
  /** The path of the lease, read on first use. */
  path: string | undefined;
  /** Whether the scope's lock may be re-entered. */
  readonly enters: boolean;
  live: boolean;
  outer: Scope | undefined;
}

const current = new AsyncLocalStorage<Scope | undefined>();

/**
 * Returns the innermost live scope: the given scope, or one of the scopes around it. Callers must unlink the ended
 * scopes in between. Otherwise a timer callback that takes a lock and sets the next timer would make the chain of
 * scopes longer each time.
 */
function live(scope: Scope | undefined): Scope | undefined {
  while (scope?.live === false) scope = scope.outer;
  return scope;
}

/** Returns the lease of the innermost live scope of a client and path, if its lock may be re-entered. */
export function innermostLease({ client, path }: { client: object; path: string }): Lease | undefined {
  for (let scope = live(current.getStore()); scope !== undefined; scope = scope.outer = live(scope.outer)) {
    if (scope.enters && clientOfLease(scope.lease) === client && (scope.path ??= scope.lease.path) === path) return scope.lease;
  }
  return undefined;
}

/** Returns the lease of the outermost live scope of a client. */
export function outermostLease(client: object): Lease | undefined {
  let outermost: Lease | undefined;
  for (let scope = live(current.getStore()); scope !== undefined; scope = scope.outer = live(scope.outer)) {
    if (clientOfLease(scope.lease) === client) outermost = scope.lease;
  }
  return outermost;
}

/** Begins a scope for each of these leases, with the first lease innermost. `endScopes` ends them. */
export function beginScopes(leases: readonly Lease[], enters: (lease: Lease, index: number) => boolean): Scope[] {
  const scopes: Scope[] = [];
  leases.reduceRight((outer, lease, index) => {
    const scope = { lease, path: undefined, enters: enters(lease, index), live: true, outer };
    scopes.push(scope);
    return scope;
  }, live(current.getStore()));
  return scopes;
}

/** Calls `body` inside scopes. Without scopes, calls it directly. */
export function callWithin<Given, T>(scopes: readonly Scope[], body: (given: Given) => T, given: Given): T {
  const innermost = scopes.at(-1);
  return innermost === undefined ? body(given) : current.run(innermost, () => body(given));
}

/** Calls a function outside all scopes. */
export function outsideScopes<T>(call: () => T): T {
  return current.run(undefined, call);
}

export function endScopes(scopes: readonly Scope[]): void {
  for (const scope of scopes) scope.live = false;
}
