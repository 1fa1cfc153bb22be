import { type NativeLease, NativeLock } from '../native';

import { run } from './bridge';
import {
  checkFunction,
  checkInstance,
  checkOptionalBoolean,
  checkOptionalNumber,
  checkOptionalSignal,
  checkOptionalString,
  checkOptions,
  checkString,
} from './check';
import { Client, clientInternals } from './client';
import { BadArgumentError, LockTimeoutError, native } from './errors';
import { createLease, guard, Lease, leaseInternals } from './lease';
import { innermostLease, runInScope } from './scope';

export interface LockOptions {
  /** A name for this contender, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /**
   * How nodes are named, which decides who else understands them. `curator`, the default, is for services on
   * Apache Curator; `kazoo` for those on kazoo that cannot set `extra_lock_patterns`.
   */
  naming?: 'curator' | 'kazoo' | undefined;
}

export interface MutexOptions extends LockOptions {
  /** Whether an owner that holds the lock may acquire it again, or waits like anybody else. Default: true. */
  reentrant?: boolean | undefined;
}

export interface AcquireOptions {
  /**
   * How long the attempt may take, in ms, everything included: connecting, queueing and waiting. 0 takes the lock
   * only if it is free, without queueing. Default: as long as it takes.
   */
  timeout?: number | undefined;
  /** Gives the attempt up when it aborts. Without effect once the lock is acquired. */
  signal?: AbortSignal | undefined;
  /** Acquires as the owner of this lease, who holds the lock already. Of a read/write lock it may be either half's. */
  within?: Lease | undefined;
}

type Body<T> = (lease: Lease) => T | PromiseLike<T>;

/** What can be acquired: a mutex, or a half of a read/write lock. */
export class Lock {
  readonly #client: Client;
  readonly #path: string;
  readonly #reentrant: boolean;
  readonly #native: NativeLock;

  /** @internal Not for callers: a lock is a `Mutex`, or belongs to a `ReadWriteLock`. */
  constructor(kind: 'mutex' | 'read' | 'write', client: Client, path: string, options: MutexOptions) {
    checkInstance('client', client, Client);
    checkString('path', path);
    checkOptions('options', options);
    const { reentrant = true, label, naming } = options;
    checkOptionalBoolean('reentrant', reentrant);
    checkOptionalString('label', label);
    checkOptionalString('naming', naming);
    this.#client = client;
    this.#path = path;
    this.#reentrant = reentrant;
    this.#native = native(() => new NativeLock(kind, clientInternals(client).native, path, reentrant, label, naming));
  }

  /** The lock path, as given. */
  get path(): string {
    return this.#path;
  }

  /**
   * Acquires the lock. An attempt that is given up, by time-out or signal, leaves the queue.
   *
   * @throws {LockTimeoutError} if the time-out runs out.
   * @throws the signal's reason if it aborts.
   * @throws {ClientClosedError}, {@link ConnectionFailedError}, {@link AuthFailedError},
   *   {@link SequenceExhaustedError}.
   * @throws {UpgradeRefusedError} at once, if the owner holds the read lock and asks for the write lock.
   * @throws {LockLostError} or {@link NotHeldError} if `within` is not held.
   * @throws {BadArgumentError} for a time-out below zero, or `within` of another lock or on one that does not
   *   re-enter, before anything is sent.
   */
  async acquire(options: AcquireOptions = {}): Promise<Lease> {
    checkOptions('options', options);
    const { timeout, signal, within } = options;
    checkOptionalNumber('timeout', timeout);
    checkOptionalSignal('signal', signal);
    if (within !== undefined) this.#checkWithin(within);
    const owner = this.#reentrant ? (within ?? innermostLease(this.#client, this.#path)) : undefined;
    const lease = await run<NativeLease>(
      (bridge) => this.#native.acquire(bridge, timeout, owner && leaseInternals(owner).native),
      clientInternals(this.#client).keepAlive,
      signal,
    );
    return createLease(lease, this.#client);
  }

  #checkWithin(within: Lease): void {
    checkInstance('within', within, Lease);
    if (!this.#reentrant) throw new BadArgumentError('within: this lock does not re-enter');
    if (leaseInternals(within).client !== this.#client || within.path !== this.#path) {
      throw new BadArgumentError(`within: must be a lease of ${this.#path} on the same client, but is of ${within.path}`);
    }
    within.check();
  }

  /**
   * Acquires the lock if it is free, without queueing; `null` if it is taken.
   *
   * @throws {ConnectionFailedError} if nothing answers within the connect time-out, and as `acquire()`.
   */
  async tryAcquire(): Promise<Lease | null> {
    try {
      return await this.acquire({ timeout: 0 });
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Runs `body` while holding the lock, and releases it when the body, or the promise that it returns, is done.
   * Resolves or rejects as the body does. When the lock is lost, `lease.signal` aborts, for the body to stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {LockLostError} at the end of the body, if the lock was lost meanwhile; its cause is what the body threw.
   */
  async using<T>(body: Body<T>): Promise<T>;
  async using<T>(options: AcquireOptions, body: Body<T>): Promise<T>;
  async using<T>(...args: [Body<T>] | [AcquireOptions, Body<T>]): Promise<T> {
    const [options, body] = args.length === 1 ? [undefined, args[0]] : args;
    checkFunction('body', body);
    const lease = await this.acquire(options);
    try {
      const run = () => body(lease);
      return await guard(lease, () => (this.#reentrant ? runInScope(this.#client, lease, run) : run()));
    } finally {
      await lease[Symbol.asyncDispose]();
    }
  }
}
