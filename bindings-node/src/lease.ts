import type { NativeLease } from '../native';

import { giveUp, run, type Start, untilDone, watch } from './bridge';
import { checkBoolean, checkFunction, checkOptions, checkOurs, ours } from './check';
import type { Client } from './client';
import { LockLostError, native, NotHeldError, nullIf } from './errors';
import { createTransaction, type Transaction } from './transaction';

/**
 * Whether a lease still proves anything. `suspended` is held, with the server out of reach: `held` again when it answers
 * in time, and `lost`, for good, when it does not.
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

export interface ReleaseOptions {
  /** Whether to wait for the server's acknowledgement. Default: true. */
  wait?: boolean | undefined;
}

/** What the other classes need of a lease. */
export interface LeaseInternals {
  readonly native: NativeLease;
  readonly client: Client;
  /** What `check()` throws if the lease is lost. */
  loss(): LockLostError | undefined;
}

let internals: (lease: Lease) => LeaseInternals;
let create: (native: NativeLease, client: Client) => Lease;

// A lease that is collected without a release is released by its native half; what watches it has to go as well.
const collected = new FinalizationRegistry(giveUp);

/**
 * Proof of holding a lock, and the handle that releases it.
 *
 * Every successful acquire gives a lease of its own; those of one owner on one path share node, token and state,
 * and the last one released frees the lock. A lease that is garbage collected is released, but when that happens
 * is up to the engine.
 */
export class Lease {
  readonly #native: NativeLease;
  readonly #client: Client;
  #signal: AbortSignal | undefined;
  /** What waits for something to happen to it. */
  readonly #watches: number[] = [];

  static {
    internals = (lease) => ({ native: lease.#native, client: lease.#client, loss: () => lease.#loss() });
    create = (native, client) => new Lease(native, client, ours);
  }

  private constructor(native: NativeLease, client: Client, key: symbol) {
    checkOurs(key, 'a lease is made by acquiring a lock');
    this.#native = native;
    this.#client = client;
  }

  /** The lock path, as given when the lock was made. */
  get path(): string {
    return this.#native.path;
  }

  /** The full path of the lock's node, below the client's chroot. */
  get node(): string {
    return this.#native.node;
  }

  /**
   * The fencing token. It grows from holder to holder over the life of the ensemble: hand it to the resource that
   * the lock guards, and let that refuse smaller ones.
   */
  get fencingToken(): bigint {
    return this.#native.fencingToken;
  }

  /** The ZooKeeper session that owns the node. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /** Whether the lease still proves anything. Sends nothing. */
  get state(): LeaseState {
    return this.#native.state as LeaseState;
  }

  /**
   * For how long nobody else can have the lock, whatever happens, in ms; 0 once it is lost or released. It ends half the
   * session time-out after the last write that the server acknowledged, and is prolonged while the server answers.
   * Sends nothing.
   */
  get remaining(): number {
    return this.#native.remaining;
  }

  /** Why the lease is lost, if it is: `term ended`, `session expired`, `node deleted`, `client closed`. Sends nothing. */
  get lossReason(): string | undefined {
    return this.#native.lossReason ?? undefined;
  }

  /**
   * Calls `listener` with the lease, once, when somebody asks for the lock to be given up, as with `client.revoke()` or
   * Curator's `Revoker`; a request that was made before this call counts. The lease stays held: to release it is the
   * holder's part. Does not keep the process alive, nor the lease held.
   *
   * @returns a function that has `listener` called no more.
   */
  onRevoke(listener: (lease: Lease) => void): () => void {
    checkFunction('listener', listener);
    const id = this.#watch((bridge) => this.#native.revoked(bridge), Lease.#callOf(new WeakRef(this), listener));
    return () => {
      giveUp(id);
    };
  }

  /** As `#abortOf`. */
  static #callOf(weak: WeakRef<Lease>, listener: (lease: Lease) => void): () => void {
    return () => {
      const lease = weak.deref();
      if (lease !== undefined) listener(lease);
    };
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason; never after a release. Hand it to what
   * has to stop then. It does not keep the process alive, nor the lease held: keep the lease.
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
      this.#watch((bridge) => this.#native.lost(bridge), Lease.#abortOf(new WeakRef(this), controller));
    }
    return controller.signal;
  }

  /**
   * What to do when the loss is heard of. It knows the lease only weakly, so that a lease can be collected, and
   * thereby released, while its loss is awaited; and it is made here because closures share what they capture.
   */
  static #abortOf(weak: WeakRef<Lease>, controller: AbortController): () => void {
    return () => {
      const lease = weak.deref();
      const loss = lease && lease.#loss();
      if (loss !== undefined) controller.abort(loss);
    };
  }

  #watch(start: Start, then: () => void): number {
    const id = watch(start, then);
    this.#watches.push(id);
    collected.register(this, id, this);
    return id;
  }

  #stopWatching(): void {
    collected.unregister(this);
    this.#watches.splice(0).forEach(giveUp);
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
   * @throws {LockLostError} once the lease is lost.
   * @throws {NotHeldError} after a release.
   */
  check(): void {
    native(() => {
      this.#native.check();
    });
  }

  /**
   * Releases this level; the last one of a hold frees the lock. The release is on its way when this returns; the
   * promise resolves when the server has acknowledged it, or the session is over.
   *
   * Never fails because of the network. A lost lease is released without an error: there is nothing to undo.
   *
   * @throws {NotHeldError} the second time.
   */
  async release(options: ReleaseOptions = {}): Promise<void> {
    checkOptions<ReleaseOptions>(options, { wait: checkBoolean });
    this.#stopWatching();
    if (options.wait ?? true) {
      await run<undefined>((bridge) => this.#native.release(bridge), untilDone);
    } else {
      native(() => {
        this.#native.releaseInBackground();
      });
    }
  }

  /** Begins a transaction that is carried out only while the lock is held. Sends nothing. */
  transaction(): Transaction {
    return createTransaction(this.#native.transaction());
  }

  /** Releases at the end of an `await using` block. Does nothing if the lease has been released before. */
  async [Symbol.asyncDispose](): Promise<void> {
    await nullIf(NotHeldError, this.release());
  }

  /** For `JSON.stringify`, which refuses a bigint. */
  toJSON(): LeaseJson {
    const { path, node, fencingToken, sessionId, state } = this;
    return { path, node, fencingToken: fencingToken.toString(), sessionId: sessionId.toString(), state };
  }
}

export { create as createLease, internals as leaseInternals };
