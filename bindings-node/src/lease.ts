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
  checkOurs,
  checkSignal,
  ours,
} from './validate';

/**
 * Whether a lease still proves anything. A `suspended` lease is still held, but the server cannot be reached: the lease
 * becomes `held` again if the server answers in time, and otherwise `lost`, for good.
 */
export type LeaseState = 'held' | 'suspended' | 'lost' | 'released';

/** A lease as JSON. Numbers that a double cannot hold are decimal strings. */
export interface LeaseJson {
  path: string;
  node: string;
  fencingToken: string;
  sessionId: string;
  state: LeaseState;
}

/** How to release. */
export interface ReleaseOptions {
  /** Whether to wait for the server's acknowledgement. Default: true. */
  wait?: boolean | undefined;
  /**
   * For how many ms to wait at most. It never waits longer than `remaining` was when it was called. Default: no other
   * limit.
   */
  timeout?: number | undefined;
  /** Ends the wait when it aborts. The release goes on, and its promise resolves. */
  signal?: AbortSignal | undefined;
}

/** Who is told of one hold, if somebody traces its client. */
export interface TracedHold {
  /** Runs the body of its scope. */
  run<T>(body: () => T): T;
  /** The body failed. Counts only until it is over. */
  failed(error: unknown): void;
  /** It is over: released, or lost for a reason. Only the first call counts. */
  ended(lossReason: LossReason | undefined): void;
}

/** What the other classes need from a lease. */
export interface LeaseInternals {
  readonly native: NativeLease;
  /** Whose it is; the lease keeps it. */
  readonly client: object;
  /** Calls `then` with the lease if it is lost before it is released. Only the first call counts. */
  readonly tellLoss: (then: (lease: Lease) => void) => void;
  /** The same; each call counts. */
  readonly onLoss: (then: (lease: Lease) => void) => void;
  /** Has it told of the release. */
  readonly keepWith: (keeper: Keeper) => void;
}

/** What keeps a lease until it ends. */
export interface Keeper {
  /** It is released. */
  over(lease: Lease): void;
}

/** Who remembers a lease from the moment on in which it is entered again. */
export interface Brief {
  begins(lease: Lease): void;
  /** It is released. */
  over(lease: Lease): void;
  /** Its body goes on. From here on it may be collected. */
  lasts(lease: Lease): void;
}

/** A lease without a native object of its own, until somebody asks it for something. */
interface Again {
  /** Where it is, and by which number. */
  readonly outer: NativeLease;
  readonly id: number;
  readonly brief: Brief;
}

const releaseChecks = { wait: checkBoolean, timeout: checkNumber, signal: checkSignal };

let internals: (lease: Lease) => LeaseInternals;
let nativeOf: (lease: Lease) => NativeLease;
let clientOf: (lease: Lease) => object;
let leave: (lease: Lease) => number | null;
let isOpen: (lease: Lease) => boolean;
let create: (native: NativeLease, client: object) => Lease;
let createAgain: (outer: NativeLease, id: number, client: object, brief: Brief) => Lease;
let anchorOf: (lease: Lease) => NativeLease;
let keep: (lease: Lease) => void;
let begin: (lease: Lease) => void;
let end: (lease: Lease) => void;
let traceOf: (lease: Lease) => TracedHold | undefined;
let trace: (lease: Lease, hold: TracedHold) => void;

// The native half releases a lease that is collected without a release, and warns; what watches it has to go as well.
const collected = new FinalizationRegistry(giveUp);

/** Those whose signal was read, until they end: what shows a loss would not show that the collector ended the lease. */
const pinned = new Set<Lease>();

/** Calls `then` with a lease that may be collected, and thereby released, while it is watched. */
function callWeakly(weak: WeakRef<Lease>, then: (lease: Lease) => unknown): () => void {
  return () => {
    const lease = weak.deref();
    if (lease !== undefined) then(lease);
  };
}

/**
 * Proof of holding a lock, and the handle that releases it.
 *
 * Every successful acquire returns a lease of its own. The leases of one owner on one path share node, token and state,
 * and the last one to be released frees the lock. Keep it until you release it: one that is garbage collected is
 * released, whenever the engine does that, with a warning in the log. Reading `signal` pins it.
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
  /** Who is told of its end, if anybody is. */
  #traced: TracedHold | undefined;
  #keeper: Keeper | undefined;
  /** The operations that wait for its loss or its revocation. */
  readonly #watches: number[] = [];
  /** The listeners of a revocation. Kept here, as their async context may refer to the lease, and must not pin it. */
  readonly #listeners = new Map<symbol, (lease: Lease) => unknown>();

  static {
    internals = (lease) => ({
      native: lease.#native,
      client: lease.#client,
      tellLoss: (then) => lease.#tellLoss(then),
      onLoss: (then) => void lease.#watch((bridge) => lease.#native.lost(bridge), then),
      keepWith: (keeper) => void (lease.#keeper = keeper),
    });
    nativeOf = (lease) => lease.#native;
    clientOf = (lease) => lease.#client;
    leave = (lease) => lease.#leave();
    isOpen = (lease) => !lease.#released && (lease.state === 'held' || lease.state === 'suspended');
    create = (native, client) => new Lease(native, client, ours);
    createAgain = (outer, id, client, brief) => {
      const lease = new Lease(undefined, client, ours);
      lease.#again = { outer, id, brief };
      brief.begins(lease);
      return lease;
    };
    anchorOf = (lease) => lease.#again?.outer ?? lease.#native;
    keep = (lease) => lease.#keep();
    end = (lease) => lease.#end();
    begin = (lease) => {
      // An owner that holds one of the others could not acquire it again.
      if (['mutex', 'read', 'write'].includes(lease.mode)) enterBlock(lease, lease.#client);
    };
    const { [Symbol.asyncDispose]: dispose } = this.prototype;
    // `await using` reads it where its block begins.
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
    checkOurs(key, 'acquire a lock to get a lease');
    this.#made = native;
    this.#client = client;
  }

  get #native(): NativeLease {
    return (this.#made ??= this.#make());
  }

  #make(): NativeLease {
    const again = this.#again;
    if (again === undefined) throw new TypeError('acquire a lock to get a lease');
    // Once it is released its number may be that of another one.
    return this.#released ? again.outer.remains() : again.outer.inner(again.id);
  }

  /** The body of its scope goes on: when that is given up, the lease is to be collected, and thereby released. */
  #keep(): void {
    if (this.#again === undefined) return;
    this.#made ??= this.#make();
    this.#again.brief.lasts(this);
  }

  /** The lock path, as given to the lock. */
  get path(): string {
    return this.#native.path;
  }

  /** The full path of the lock's node, below the client's chroot. */
  get node(): string {
    return this.#native.node;
  }

  /** What the lock is held for. */
  get mode(): LockMode {
    return this.#native.mode as LockMode;
  }

  /**
   * The fencing token. It grows from holder to holder over the life of the ensemble: pass it to the resource that the
   * lock protects, which should refuse smaller ones.
   */
  get fencingToken(): bigint {
    return this.#native.fencingToken;
  }

  /**
   * How many holds there were on this lease's node before its own. Holds that follow each other on one node, because of the
   * options `cohort` and `linger`, have the same fencing token. The pair of token and hand-offs grows from holder to
   * holder. 0 without these options.
   */
  get handoffs(): number {
    return this.#native.handoffs;
  }

  /** The ZooKeeper session that owns the node. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * The session time-out that the server granted, in ms: for so long it may not hear from the client before it frees
   * the lock.
   */
  get sessionTimeout(): number {
    return this.#native.sessionTimeout;
  }

  /** Whether the lease still proves anything. Sends nothing. */
  get state(): LeaseState {
    return this.#native.state as LeaseState;
  }

  /**
   * For how many ms no one else can get the lock, unless it is broken; 0 once the lease is lost or released. This time
   * ends half the session time-out after the last write that the server acknowledged, and grows while the server
   * answers. Sends nothing.
   */
  get remaining(): number {
    return this.#native.remaining;
  }

  /**
   * Why the lease is lost, if it is: `term ended`, `session expired`, `node deleted`, `held too long` (after `maxHold`)
   * or `client closed`. Sends nothing.
   */
  get lossReason(): LossReason | undefined {
    return (this.#native.lossReason ?? undefined) as LossReason | undefined;
  }

  /**
   * Calls `listener` with the lease, once, when somebody asks the holder to give up the lock, with `client.revoke()` or
   * Curator's `Revoker`; an earlier request counts too. The lease stays held: the holder decides whether to release it.
   * Keeps neither the process alive nor the lease held. The listener runs in the async context of this call.
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
    this.#listeners.set(key, inContext(listener));
    const id = this.#watch((bridge) => this.#native.revoked(bridge), Lease.#listenerOf(key));
    return Lease.#forgetLater(new WeakRef(this), key, id);
  }

  /** Static, as are the next ones: closures share what they capture, and these must not refer to the lease. */
  static #listenerOf(key: symbol): (lease: Lease) => void {
    return (lease) => void lease.#listeners.get(key)?.(lease);
  }

  static #forgetLater(weak: WeakRef<Lease>, key: symbol, id: number): () => void {
    return () => {
      giveUp(id);
      const lease = weak.deref();
      if (lease !== undefined) lease.#listeners.delete(key);
    };
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason; never after a release. Pass it to whatever has
   * to stop then. Reading it pins the lease: it is held until it is released or lost, whether or not anything refers to
   * it, and `client.health()` lists it as pinned. It does not keep the process alive. It aborts in the async context in
   * which it was first read.
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

  /** The listener of a loss. */
  static #abortOf(controller: AbortController): (lease: Lease) => void {
    return (lease) => {
      pinned.delete(lease);
      const loss = lease.#loss();
      if (loss !== undefined) controller.abort(loss);
    };
  }

  #tellLoss(then: (lease: Lease) => void): void {
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
    this.#again?.brief.over(this);
    this.#keeper?.over(this);
    // Most leases are never watched. Those that are pinned are.
    if (this.#watches.length === 0) return;
    pinned.delete(this);
    collected.unregister(this);
    this.#watches.splice(0).forEach(giveUp);
    this.#listeners.clear();
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
   * Returns while the lock is held. Sends nothing.
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
   * Releases this lease; the last one that its owner releases frees the lock. The request is on its way when this
   * returns. The promise resolves when the server has acknowledged it, but no later than after the time that
   * `remaining` said when it was called: at most half the session time-out. The release goes on in the background then.
   *
   * Never fails because of the network. Releasing a lost lease is no error: there is nothing to undo. If somebody had
   * deleted the lock's node or ended the session, `state` is `lost` afterwards.
   *
   * @throws {@link NotHeldError} the second time.
   * @throws {@link BadArgumentError} for a time-out below zero or NaN, or together with `wait: false`.
   *
   * @example
   * await lease.release({ timeout: 500, signal: AbortSignal.timeout(1000) });
   * console.log(lease.state); // released
   */
  async release(options?: ReleaseOptions): Promise<void> {
    if (options !== undefined) checkOptions<ReleaseOptions>(options, releaseChecks);
    const { wait = true, timeout, signal } = options ?? {};
    // It is released whether or not somebody still wants to wait for it.
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

  /** Releases a lease that is held, at the end of its scope: `null` if it is not. Zero: that was all. Else what waits. */
  #leave(): number | null {
    const again = this.#made === undefined ? this.#again : undefined;
    const id = withBridge((bridge) => again?.outer.leaveInner(bridge, again.id) ?? this.#native.leave(bridge));
    if (id !== null) this.#end();
    return id;
  }

  /**
   * Begins a transaction, which is carried out only if the lock is held at that moment. Sends nothing.
   *
   * @example
   * await lease.transaction().create('/state', 'running').commit();
   */
  transaction(): Transaction {
    return createTransaction(this.#native.transaction());
  }

  /**
   * Releases at the end of an `await using` block. Does nothing if the lease has already been released.
   *
   * @example
   * await using lease = await mutex.acquire();
   * console.log(lease.state); // held
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await nullIf(NotHeldError, this.release());
  }

  /**
   * For `JSON.stringify`, which refuses a bigint.
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
