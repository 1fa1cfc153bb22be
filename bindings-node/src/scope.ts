/** Who may re-enter: what runs inside a live `using` scope of the same client and path. */

import { AsyncLocalStorage } from 'node:async_hooks';

import { clientOfLease, type Lease } from './lease';

export interface Scope {
  readonly lease: Lease;
  /** The lease's, once somebody wanted to know it. */
  path: string | undefined;
  live: boolean;
  outer: Scope | undefined;
}

const current = new AsyncLocalStorage<Scope | undefined>();

/**
 * The innermost live one of a scope and those around it. Those that have ended, because a callback may outlive its scope,
 * are unlinked by whoever goes from scope to scope, or a timer that takes a lock and sets the next timer would grow a
 * chain for ever.
 */
function live(scope: Scope | undefined): Scope | undefined {
  while (scope?.live === false) scope = scope.outer;
  return scope;
}

/** The lease of the innermost live scope of a client and path. */
export function innermostLease({ client, path }: { client: object; path: string }): Lease | undefined {
  for (let scope = live(current.getStore()); scope !== undefined; scope = scope.outer = live(scope.outer)) {
    if (clientOfLease(scope.lease) === client && (scope.path ??= scope.lease.path) === path) return scope.lease;
  }
  return undefined;
}

/** Scopes of these leases, the first one innermost. They begin now, and end with `endScopes`. */
export function beginScopes(leases: readonly Lease[]): Scope[] {
  const scopes: Scope[] = [];
  let outer = live(current.getStore());
  for (const lease of [...leases].reverse()) {
    outer = { lease, path: undefined, live: true, outer };
    scopes.push(outer);
  }
  return scopes;
}

/** Calls `body` within scopes; without any there is nothing that it would need to know. */
export function callWithin<Given, T>(scopes: readonly Scope[], body: (given: Given) => T, given: Given): T {
  const innermost = scopes.at(-1);
  return innermost === undefined ? body(given) : current.run(innermost, () => body(given));
}

/** Calls a function as nobody's owner. */
export function outsideScopes<T>(call: () => T): T {
  return current.run(undefined, call);
}

export function endScopes(scopes: readonly Scope[]): void {
  for (const scope of scopes) scope.live = false;
}
