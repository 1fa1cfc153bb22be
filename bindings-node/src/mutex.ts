import { type NativeLease, NativeMutex } from '../native';

import { run } from './bridge';
import {
  checkFunction,
  checkInstance,
  checkOptionalNumber,
  checkOptionalSignal,
  checkOptionalString,
  checkOptions,
  checkString,
} from './check';
import { Client, clientInternals } from './client';
import { BadArgumentError, LockTimeoutError, native } from './errors';
import { createLease, Lease, leaseInternals } from './lease';
import { innermostLease, runInScope } from './scope';

export interface MutexOptions {
  /** A name for this contender, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /**
   * How nodes are named, which decides who else understands them. `curator`, the default, is for services on
   * Apache Curator; `kazoo` for those on kazoo that cannot set `extra_lock_patterns`.
   */
  naming?: 'curator' | 'kazoo' | undefined;
}

export interface AcquireOptions {
  /**
   * How long the attempt may take, in ms, everything included: connecting, queueing and waiting. 0 takes the lock
   * only if it is free, without queueing. Default: as long as it takes.
   */
  timeout?: number | undefined;
  /** Gives the attempt up when it aborts. Without effect once the lock is acquired. */
  signal?: AbortSignal | undefined;
  /** Re-enters: acquires as the owner of this lease, who holds the lock already. */
  within?: Lease | undefined;
}

type Body<T> = (lease: Lease) => T | PromiseLike<T>;

/**
 * A fair, reentrant, exclusive lock, taken in the layout of Curator's `InterProcessMutex`.
 *
 * Waiters are served in the order in which the server queued them. Two lock objects on one client and path are one
 * lock. Making one sends nothing.
 *
 * **Who may re-enter.** An `acquire()` inside a {@link Mutex.using} scope on the same client and path re-enters, and
 * so do all branches of a `Promise.all` there: they share the hold. A callback that outlives the scope is a new
 * owner. Outside scopes every `acquire()` is a new owner, who waits for the others; `within` re-enters explicitly.
 */
export class Mutex {
  readonly #client: Client;
  readonly #path: string;
  readonly #native: NativeMutex;

  /**
   * @param client a connected client.
   * @param path an absolute path below the client's chroot. Missing directories are made when needed.
   * @throws {BadArgumentError} for a malformed path.
   */
  constructor(client: Client, path: string, options: MutexOptions = {}) {
    checkInstance('client', client, Client);
    checkString('path', path);
    checkOptions('options', options);
    const { label, naming } = options;
    checkOptionalString('label', label);
    checkOptionalString('naming', naming);
    this.#client = client;
    this.#path = path;
    this.#native = native(() => new NativeMutex(clientInternals(client).native, path, label, naming));
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
   * @throws {LockLostError} or {@link NotHeldError} if `within` is not held.
   * @throws {BadArgumentError} for a time-out below zero or `within` of another lock, before anything is sent.
   */
  async acquire(options: AcquireOptions = {}): Promise<Lease> {
    checkOptions('options', options);
    const { timeout, signal, within } = options;
    checkOptionalNumber('timeout', timeout);
    checkOptionalSignal('signal', signal);
    if (within !== undefined) this.#checkWithin(within);
    const owner = within ?? innermostLease(this.#client, this.#path);
    const lease = await run<NativeLease>(
      (bridge) => this.#native.acquire(bridge, timeout, owner && leaseInternals(owner).native),
      clientInternals(this.#client).keepAlive,
      signal,
    );
    return createLease(lease, this.#client);
  }

  #checkWithin(within: Lease): void {
    checkInstance('within', within, Lease);
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
   * Resolves or rejects as the body does.
   *
   * @throws as `acquire()`, before the body runs.
   */
  async using<T>(body: Body<T>): Promise<T>;
  async using<T>(options: AcquireOptions, body: Body<T>): Promise<T>;
  async using<T>(...args: [Body<T>] | [AcquireOptions, Body<T>]): Promise<T> {
    const [options, body] = args.length === 1 ? [undefined, args[0]] : args;
    checkFunction('body', body);
    const lease = await this.acquire(options);
    try {
      return await runInScope(this.#client, lease, () => body(lease));
    } finally {
      await lease[Symbol.asyncDispose]();
    }
  }
}
