/**
 * Who may re-enter: what runs inside a live `using` scope of the same client and path. And of which owner others are told:
 * that of the outermost live scope.
 */

import { AsyncLocalStorage } from 'node:async_hooks';

import { clientOfLease, type Lease } from './lease';

export interface Scope {
  readonly lease: Lease;
  /** The lease's, once somebody wanted to know it. */
  path: string | undefined;
  /** Whether its lock may be entered again. */
  readonly enters: boolean;
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

/** The lease of the innermost live scope of a client and path, if its lock may be entered again. */
export function innermostLease({ client, path }: { client: object; path: string }): Lease | undefined {
  for (let scope = live(current.getStore()); scope !== undefined; scope = scope.outer = live(scope.outer)) {
    if (scope.enters && clientOfLease(scope.lease) === client && (scope.path ??= scope.lease.path) === path) return scope.lease;
  }
  return undefined;
}

/** The lease of the outermost live scope of a client. */
export function outermostLease(client: object): Lease | undefined {
  let outermost: Lease | undefined;
  for (let scope = live(current.getStore()); scope !== undefined; scope = scope.outer = live(scope.outer)) {
    if (clientOfLease(scope.lease) === client) outermost = scope.lease;
  }
  return outermost;
}

/** Scopes of these leases, the first one innermost. They begin now, and end with `endScopes`. */
export function beginScopes(leases: readonly Lease[], enters: (lease: Lease, index: number) => boolean): Scope[] {
  const scopes: Scope[] = [];
  let outer = live(current.getStore());
  for (const [index, lease] of [...leases.entries()].reverse()) {
    outer = { lease, path: undefined, enters: enters(lease, index), live: true, outer };
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
