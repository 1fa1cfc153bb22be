import type { Bridge, NativeLease } from '../addon';

import { enterBlock } from './blocks';
import { giveUp, run, type Start, untilDone, watch, withBridge } from './bridge';
import { inContext } from './context';
import { LockLostError, native, NotHeldError, nullIf, withReason } from './errors';
import { showAs } from './inspect';
import { createTransaction, type Transaction } from './transaction';
import type { LockMode, LossReason } from './types';
import {
  checkBoolean,
  checkFunction,
  checkInstance,
  checkNumber,
  checkOptions,
  checkInternalKey,
  checkSignal,
  internalKey,
} from './validate';

/**
 * The state of a lease. `held`: the lease is valid. `suspended`: the lease is still valid, but the server cannot be
 * reached. A suspended lease becomes `held` again if the server replies in time, and `lost` otherwise. `lost` and
 * `released` are final.
 */
export type LeaseState = 'held' | 'suspended' | 'lost' | 'released';

/** A lease as JSON. Numbers that do not fit into a double are decimal strings. */
export interface LeaseJson {
  path: string;
  node: string;
  fencingToken: string;
  sessionId: string;
  state: LeaseState;
}

/** Options of {@link Lease.release}. */
export interface ReleaseOptions {
  /** Whether to wait for the server's acknowledgement. Default: true. */
  wait?: boolean | undefined;
  /**
   * The maximum time to wait, in ms. The wait never exceeds the value of `remaining` at the time of the call. Default:
   * no other limit.
   */
  timeout?: number | undefined;
  /** Ends the wait when it aborts. The release continues, and its promise resolves. */
  signal?: AbortSignal | undefined;
}

/** Receives the events of one hold, if its client is traced. */
export interface TracedHold {
  /** Runs the body of the hold's scope. */
  run<T>(body: () => T): T;
  /** Records that the body failed. Ignored once the hold has ended. */
  failed(error: unknown): void;
  /** Records that the hold ended: released, or lost for a reason. Only the first call counts. */
  ended(lossReason: LossReason | undefined): void;
}

/** The parts of a lease that the other modules use. */
export interface LeaseInternals {
  readonly native: NativeLease;
  /** The client of the lease, which the lease keeps referenced. */
  readonly client: object;
  /** Calls `then` with the lease if it is lost before it is released. Only the first call has an effect. */
  readonly onFirstLoss: (then: (lease: Lease) => void) => void;
  /** Like `onFirstLoss`, but every call adds a callback. */
  readonly onLoss: (then: (lease: Lease) => void) => void;
  /** Sets the keeper that is notified of the release. */
  readonly keepWith: (keeper: Keeper) => void;
}

/** Keeps a lease referenced until the lease ends. */
export interface Keeper {
  /** Called when the lease is released. */
  over(lease: Lease): void;
}

/** Keeps the lease of a re-entered scope referenced while the body runs synchronously. */
export interface ReentryTracker {
  begins(lease: Lease): void;
  /** Called when the lease is released. */
  over(lease: Lease): void;
  /** Called when the body turns out to be asynchronous. The lease may then be garbage collected. */
  isAsync(lease: Lease): void;
}

/** A re-entered lease, whose native object is created only when it is needed. */
interface Again {
  /** The outer lease whose native object stores this lease, under the number `id`. */
  readonly outer: NativeLease;
  readonly id: number;
  readonly tracker: ReentryTracker;
}

const releaseChecks = { wait: checkBoolean, timeout: checkNumber, signal: checkSignal };

let internals: (lease: Lease) => LeaseInternals;
let nativeOf: (lease: Lease) => NativeLease;
let clientOf: (lease: Lease) => object;
let leave: (lease: Lease) => number | null;
let isOpen: (lease: Lease) => boolean;
let create: (native: NativeLease, client: object) => Lease;
let createAgain: (outer: NativeLease, id: number, client: object, tracker: ReentryTracker) => Lease;
let anchorOf: (lease: Lease) => NativeLease;
let keep: (lease: Lease) => void;
let begin: (lease: Lease) => void;
let end: (lease: Lease) => void;
let traceOf: (lease: Lease) => TracedHold | undefined;
let trace: (lease: Lease, hold: TracedHold) => void;

// When a lease is garbage collected, the native addon releases it and logs a warning. This registry ends the lease's
// pending native operations.
const collected = new FinalizationRegistry(giveUp);

/**
 * Leases whose `signal` was read, until they end. Otherwise the garbage collector could release such a lease, and its
 * `signal` would never abort.
 */
const pinned = new Set<Lease>();

/** Returns a function that calls `then` with the lease, unless the lease was garbage collected and thereby released. */
function callWeakly(weak: WeakRef<Lease>, then: (lease: Lease) => unknown): () => void {
  return () => {
    const lease = weak.deref();
    if (lease !== undefined) then(lease);
  };
}

/**
 * Proof of holding a lock, and the handle that releases it.
 *
 * Every successful acquire returns a new lease. The leases of one owner on one path share their node, token and state.
 * The lock is freed when the last of them is released. Keep a reference until you release the lease: a lease that is
 * garbage collected is released at an unpredictable time, with a warning in the log. Reading `signal` pins the lease.
 *
 * @example
 * const lease = await mutex.acquire();
 * console.log(lease.path, lease.fencingToken, lease.remaining);
 * await lease.release();
 */
export class Lease {
  #made: NativeLease | undefined;
  #again: Again | undefined;
  readonly #client: object;
  #tellsLoss = false;
  #released = false;
  #signal: AbortSignal | undefined;
  /** Receives the end of the hold, if the client is traced. */
  #traced: TracedHold | undefined;
  #keeper: Keeper | undefined;
  /** Ids of the operations that wait for the loss or the revocation of this lease. */
  readonly #watches: number[] = [];
  /**
   * Revocation listeners. Stored here because their async context may refer to the lease: a reference from outside
   * would pin the lease. Most leases have none.
   */
  #listeners: Map<symbol, (lease: Lease) => unknown> | undefined;

  static {
    internals = (lease) => ({
      native: lease.#native,
      client: lease.#client,
      onFirstLoss: (then) => lease.#onFirstLoss(then),
      onLoss: (then) => void lease.#watch((bridge) => lease.#native.lost(bridge), then),
      keepWith: (keeper) => void (lease.#keeper = keeper),
    });
    nativeOf = (lease) => lease.#native;
    clientOf = (lease) => lease.#client;
    leave = (lease) => lease.#leave();
    isOpen = (lease) => !lease.#released && (lease.state === 'held' || lease.state === 'suspended');
    create = (native, client) => new Lease(native, client, internalKey);
    createAgain = (outer, id, client, tracker) => {
      const lease = new Lease(undefined, client, internalKey);
      lease.#again = { outer, id, tracker };
      tracker.begins(lease);
      return lease;
    };
    anchorOf = (lease) => lease.#again?.outer ?? lease.#native;
    keep = (lease) => lease.#keep();
    end = (lease) => lease.#end();
    begin = (lease) => {
      // Only these modes are reentrant. An owner that holds another mode cannot acquire the lock again.
      if (['mutex', 'read', 'write'].includes(lease.mode)) enterBlock(lease, lease.#client);
    };
    const { [Symbol.asyncDispose]: dispose } = this.prototype;
    // `await using` reads this property at the beginning of its block.
    const get = function (this: object): () => Promise<void> {
      if (#client in this) begin(this);
      return dispose;
    };
    Object.defineProperty(this.prototype, Symbol.asyncDispose, { get, configurable: true });
    traceOf = (lease) => lease.#traced;
    trace = (lease, hold) => {
      lease.#traced = hold;
    };
  }

  protected constructor(native: NativeLease | undefined, client: object, key: symbol) {
    checkInternalKey(key, 'acquire a lock to get a lease');
    this.#made = native;
    this.#client = client;
  }

  get #native(): NativeLease {
    return (this.#made ??= this.#make());
  }

  #make(): NativeLease {
    const again = this.#again;
    if (again === undefined) throw new TypeError('acquire a lock to get a lease');
    // After a release, another lease may use this number.
    return this.#released ? again.outer.remains() : again.outer.inner(again.id);
  }

  /**
   * Records that the body of the scope is asynchronous. If the program abandons the body, the lease must be garbage
   * collected, which releases it.
   */
  #keep(): void {
    if (this.#again === undefined) return;
    this.#made ??= this.#make();
    this.#again.tracker.isAsync(this);
  }

  /** The lock path, as given to the lock. */
  get path(): string {
    return this.#native.path;
  }

  /** Full path of the lock's node, below the client's chroot. */
  get node(): string {
    return this.#native.node;
  }

  /** The mode in which the lock is held. */
  get mode(): LockMode {
    return this.#native.mode as LockMode;
  }

  /**
   * The fencing token. It increases with each new holder, over the lifetime of the ensemble. Pass it to the resource
   * that the lock protects, and let the resource refuse smaller tokens.
   */
  get fencingToken(): bigint {
    return this.#native.fencingToken;
  }

  /**
   * Number of earlier holds on this lease's node. With the options `cohort` and `linger`, consecutive holds on one node
   * have the same fencing token. The pair of `fencingToken` and `handoffs` increases with each new holder. 0 without
   * these options.
   */
  get handoffs(): number {
    return this.#native.handoffs;
  }

  /** The id of the ZooKeeper session that owns the node. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * The session timeout that the server granted, in ms. The server frees the lock if it receives nothing from the
   * client for this long.
   */
  get sessionTimeout(): number {
    return this.#native.sessionTimeout;
  }

  /** The state of the lease. Reading it sends nothing. */
  get state(): LeaseState {
    return this.#native.state as LeaseState;
  }

  /**
   * Time in ms during which no other client can get the lock, unless it is broken; 0 once the lease is lost or
   * released. The term of the lease ends half a session timeout after the client sent the last write that the server
   * acknowledged, and is extended while the server replies. Sends nothing.
   */
  get remaining(): number {
    return this.#native.remaining;
  }

  /**
   * The reason for the loss, if the lease is lost: `term ended`, `session expired`, `node deleted`, `held too long`
   * (after `maxHold`) or `client closed`. Sends nothing.
   */
  get lossReason(): LossReason | undefined {
    return (this.#native.lossReason ?? undefined) as LossReason | undefined;
  }

  /**
   * Calls `listener` once with the lease when the holder is asked to give up the lock, through `client.revoke()` or
   * Curator's `Revoker`. A request that arrived before this call also counts. The lease stays held: the holder decides
   * whether to release it. The listener does not keep the process alive or the lease held. It runs in the async context
   * of this call.
   *
   * @returns a function that removes the listener.
   *
   * @example
   * const stop = lease.onRevoke((lease) => void lease.release());
   * stop();
   */
  onRevoke(listener: (lease: Lease) => void): () => void {
    checkFunction('listener', listener);
    const key = Symbol();
    this.#listeners ??= new Map();
    this.#listeners.set(key, inContext(listener));
    const id = this.#watch((bridge) => this.#native.revoked(bridge), Lease.#listenerOf(key));
    return Lease.#forgetLater(new WeakRef(this), key, id);
  }

  /**
   * This and the next two functions are static, because a closure in a method would capture the lease, and the lease
   * could never be garbage collected.
   */
  static #listenerOf(key: symbol): (lease: Lease) => void {
    return (lease) => void lease.#listeners?.get(key)?.(lease);
  }

  static #forgetLater(weak: WeakRef<Lease>, key: symbol, id: number): () => void {
    return () => {
      giveUp(id);
      const lease = weak.deref();
      if (lease !== undefined) lease.#listeners?.delete(key);
    };
  }

  /**
   * A signal that aborts when the lease is lost, with a `LockLostError` as its reason. It never aborts after a release.
   * Pass it to operations that must stop when the lock is lost. Reading it pins the lease: the lease is held until it
   * is released or lost, even if nothing refers to it, and `client.health()` lists it as pinned. The signal does not
   * keep the process alive. It aborts in the async context in which it was first read.
   */
  get signal(): AbortSignal {
    this.#signal ??= this.#startWatching();
    return this.#signal;
  }

  #startWatching(): AbortSignal {
    const controller = new AbortController();
    const loss = this.#loss();
    if (loss !== undefined) {
      controller.abort(loss);
    } else if (this.state !== 'released') {
      this.#watch((bridge) => this.#native.lost(bridge), inContext(Lease.#abortOf(controller)));
      this.#native.pin();
      pinned.add(this);
    }
    return controller.signal;
  }

  /** Returns the listener for a loss, which aborts the controller. */
  static #abortOf(controller: AbortController): (lease: Lease) => void {
    return (lease) => {
      pinned.delete(lease);
      const loss = lease.#loss();
      if (loss !== undefined) controller.abort(loss);
    };
  }

  #onFirstLoss(then: (lease: Lease) => void): void {
    if (this.#tellsLoss) return;
    this.#tellsLoss = true;
    internals(this).onLoss(then);
  }

  #watch(start: Start, then: (lease: Lease) => unknown): number {
    const id = watch(start, callWeakly(new WeakRef(this), then));
    this.#watches.push(id);
    collected.register(this, id, this);
    return id;
  }

  #end(): void {
    this.#released = true;
    this.#again?.tracker.over(this);
    this.#keeper?.over(this);
    // Most leases have no watches, and only leases with watches are pinned.
    if (this.#watches.length === 0) return;
    pinned.delete(this);
    collected.unregister(this);
    this.#watches.splice(0).forEach(giveUp);
    this.#listeners?.clear();
  }

  #loss(): LockLostError | undefined {
    try {
      this.check();
    } catch (error) {
      if (error instanceof LockLostError) return error;
    }
    return undefined;
  }

  /**
   * Returns normally while the lock is held. Sends nothing.
   *
   * @throws {@link LockLostError} once the lease is lost.
   * @throws {@link NotHeldError} after a release.
   *
   * @example
   * for (const step of ['collect', 'publish']) {
   *   lease.check();
   *   console.log(step);
   * }
   */
  check(): void {
    try {
      native(() => this.#native.check());
    } catch (error) {
      throw error instanceof LockLostError ? withReason(error, this.lossReason) : error;
    }
  }

  /**
   * Releases this lease. The lock is freed when its owner has released all its leases. The request is already on its
   * way when this method returns. The promise resolves when the server has acknowledged the release. It resolves at the
   * latest after the time of `remaining` at the call, which is at most half the session timeout; the release then
   * continues in the background.
   *
   * Network problems never make a release fail. Releasing a lost lease is no error, because there is nothing to undo.
   * If the lock's node had already been deleted or the session had ended, `state` is `lost` afterwards.
   *
   * @throws {@link NotHeldError} if the lease has already been released.
   * @throws {@link BadArgumentError} if the timeout is negative or NaN, or is combined with `wait: false`.
   *
   * @example
   * await lease.release({ timeout: 500, signal: AbortSignal.timeout(1000) });
   * console.log(lease.state); // released
   */
  async release(options?: ReleaseOptions): Promise<void> {
    if (options !== undefined) checkOptions<ReleaseOptions>(options, releaseChecks);
    const { wait = true, timeout, signal } = options ?? {};
    // The lease is released even if the caller no longer waits for the acknowledgement.
    const waits = wait && signal?.aborted !== true;
    const start = (bridge: Bridge): number | null => {
      const id = this.#native.release(bridge, waits, waits === wait ? timeout : undefined);
      this.#end();
      return id;
    };
    try {
      await run<null>(start, untilDone, waits ? signal : undefined);
    } catch (error) {
      if (signal?.aborted !== true || error !== signal.reason) throw error;
    } finally {
      if (this.#released) this.#traced?.ended(this.lossReason);
    }
  }

  /**
   * Releases the lease at the end of its scope. Returns `null` if it was not held, 0 if the release is complete, and
   * otherwise the id of the operation that waits for the release.
   */
  #leave(): number | null {
    const again = this.#made === undefined ? this.#again : undefined;
    const id = withBridge((bridge) => again?.outer.leaveInner(bridge, again.id) ?? this.#native.leave(bridge));
    if (id !== null) this.#end();
    return id;
  }

  /**
   * Begins a transaction, which is applied only if the lock is held at that moment. Sends nothing.
   *
   * @example
   * await lease.transaction().create('/state', 'running').commit();
   */
  transaction(): Transaction {
    return createTransaction(this.#native.transaction());
  }

  /**
   * Releases the lease at the end of an `await using` block. Does nothing if it has already been released.
   *
   * @example
   * await using lease = await mutex.acquire();
   * console.log(lease.state); // held
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await nullIf(NotHeldError, this.release());
  }

  /**
   * Returns the JSON form of the lease, because `JSON.stringify` rejects bigints.
   *
   * @example
   * const { fencingToken } = JSON.parse(JSON.stringify(lease));
   * console.log(BigInt(fencingToken) === lease.fencingToken); // true
   */
  toJSON(): LeaseJson {
    const { path, node, fencingToken, sessionId, state } = this;
    return { path, node, fencingToken: fencingToken.toString(), sessionId: sessionId.toString(), state };
  }
}

showAs(Lease.prototype, 'Lease', ({ path, node, fencingToken, sessionId, state, lossReason }) => {
  const why = lossReason === undefined ? {} : { lossReason };
  return { path, node, fencingToken, sessionId, state, ...why };
});

export function checkLease(name: string, value: unknown): void {
  checkInstance(name, value, Lease, 'Lease');
}

export function nativeLeases(leases: readonly (Lease | undefined)[]): NativeLease[] {
  return leases.flatMap((lease) => (lease === undefined ? [] : nativeOf(lease)));
}

export {
  anchorOf as anchorOfLease,
  begin as beginLeaseBlock,
  clientOf as clientOfLease,
  createAgain as createInnerLease,
  create as createLease,
  end as endLease,
  isOpen as isOpenLease,
  keep as keepLease,
  internals as leaseInternals,
  leave as leaveScope,
  nativeOf as nativeLease,
  trace as traceLease,
  traceOf as traceOfLease,
};
