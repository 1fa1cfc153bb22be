import { type NativeLease, NativeMultiLock } from '../native';

import { run } from './bridge';
import { checkInstance, checkIterable, checkOptions } from './check';
import { clientInternals } from './client';
import { BadArgumentError, LockTimeoutError, native, nullIf } from './errors';
import { createLease, Lease, leaseInternals } from './lease';
import { createLeases, type Leases } from './leases';
import { type Pending, together } from './keep-alive';
import { Lock, lockInternals, type LockInternals, waitChecks, type WaitOptions } from './lock';
import { innermostLease } from './scope';
import { type Body, using, type UsingArguments } from './using';

export interface AcquireAllOptions extends WaitOptions {
  /** Acquires the locks that these leases are of as their owners, who hold them already. */
  within?: Iterable<Lease> | undefined;
}

/**
 * Several locks as one: all are acquired, or none, within one deadline.
 *
 * They are taken in one order that all zklock programs share, whatever order they are given in: by ensemble, then by path
 * from its root, byte by byte. So two of them cannot wait for each other. Curator's `InterProcessMultiLock` keeps the order
 * of its caller: such peers must sort by path. A lock that is named twice is taken once; of a read/write lock the write half
 * is taken before the read half. One that is lost while another is waited for is acquired again, after the others were
 * released.
 *
 * **Who may re-enter** is decided for each lock as its own `acquire()` decides it; inside {@link MultiLock.using}, each of
 * the locks may be entered again. Whoever holds one of them but not one that comes before it is refused with
 * {@link BadArgumentError}: taking that now would break the order.
 */
export class MultiLock {
  readonly #native: NativeMultiLock;
  readonly #locks: readonly LockInternals[];
  readonly #pending: Pending;

  /**
   * @param locks mutexes, halves of read/write locks and semaphores, of any clients. Of a semaphore one permit is taken.
   * @throws {BadArgumentError} for no locks, one path through two clients or for locks of two kinds, or a lock twice that
   *   does not re-enter.
   */
  constructor(locks: Iterable<Lock>) {
    checkIterable('locks', locks);
    const members = [...locks].map((lock) => {
      checkInstance('locks', lock, Lock);
      return lockInternals(lock);
    });
    this.#native = native(() => new NativeMultiLock(members.map((member) => member.native)));
    this.#locks = this.#native.order.flatMap((index) => members[index] ?? []);
    this.#pending = together(new Set(members.map(({ client }) => clientInternals(client).keepAlive)));
  }

  /** The locks' paths, in the order in which they are taken. */
  get paths(): string[] {
    return this.#locks.map(({ path }) => path);
  }

  /**
   * Acquires all.
   *
   * An abort of `signal` rejects with the signal's reason; queues are left and what was acquired is released.
   *
   * @throws {LockTimeoutError} if not all were acquired in time. It names the lock that was waited for.
   * @throws {LockLostError} or {@link NotHeldError} if one of `within` is not held.
   * @throws {BadArgumentError} if one of the locks is held but not one before it; for a time-out below zero, or one of
   *   `within` that is of none of the locks. Nothing is sent.
   * @throws what `acquire()` of one of the locks throws.
   */
  async acquire(options: AcquireAllOptions = {}): Promise<Leases> {
    checkOptions<AcquireAllOptions>(options, { ...waitChecks, within: checkIterable });
    const { timeout, signal, within = [] } = options;
    const named = [...within];
    for (const lease of named) this.#checkWithin(lease);
    // Where both are, what is named comes first.
    const entered = [...named, ...this.#enclosing()].map((lease) => leaseInternals(lease).native);
    const leases = await run<NativeLease[]>(
      (bridge) => this.#native.acquire(bridge, timeout, entered),
      this.#pending,
      signal,
    );
    return createLeases(
      this.#locks.flatMap(({ client }, index) => (leases[index] ? createLease(leases[index], client) : [])),
    );
  }

  /** The leases of the scopes around us that are of one of the locks. */
  #enclosing(): Lease[] {
    const reentrant = this.#locks.filter((lock) => lock.reentrant);
    return reentrant.flatMap(({ client, path }) => innermostLease(client, path) ?? []);
  }

  /** Whether a lease is of one of the locks, and lets its owner acquire that again. */
  #enters(lease: Lease): boolean {
    const { client } = leaseInternals(lease);
    return this.#locks.some((lock) => lock.reentrant && lock.client === client && lock.path === lease.path);
  }

  #checkWithin(lease: Lease): void {
    checkInstance('within', lease, Lease);
    if (!this.#enters(lease)) {
      throw new BadArgumentError(`within: ${lease.path} is none of these locks, or does not re-enter`);
    }
    lease.check();
  }

  /**
   * Acquires all if all are free, without queueing; `null` if one is taken. Some may be held for a moment before one turns
   * out to be taken.
   *
   * @throws {ConnectionFailedError} if nothing answers within the connect time-out, and as `acquire()`.
   */
  async tryAcquire(): Promise<Leases | null> {
    return nullIf(LockTimeoutError, this.acquire({ timeout: 0 }));
  }

  /**
   * Runs `body` while holding all, and releases them when the body, or the promise that it returns, is done.
   * Resolves or rejects as the body does. When one is lost, the signal of the leases aborts, for the body to stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {LockLostError} at the end of the body, if a lock was lost meanwhile; its cause is what the body threw.
   */
  async using<T>(body: Body<Leases, T>): Promise<T>;
  async using<T>(options: AcquireAllOptions, body: Body<Leases, T>): Promise<T>;
  async using<T>(...args: UsingArguments<AcquireAllOptions, Leases, T>): Promise<T> {
    return using(
      args,
      (options) => this.acquire(options),
      (_, index) => this.#locks[index]?.reentrant === true,
    );
  }
}
