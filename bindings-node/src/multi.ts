import { type NativeLease, NativeMultiLock, type NativeWait } from '../addon';

import { run } from './bridge';
import { type ClientInternals, clientInternals } from './client';
import { LockTimeoutError, native, nullIf } from './errors';
import { showAs } from './inspect';
import { type Pending, combinePending } from './keep-alive';
import { checkLease, type Lease, nativeLeases } from './lease';
import { createLeases, type Leases } from './leases';
import { leaseOf, Lock, lockInternals, type LockInternals, outermostAnchor, waitChecks, type WaitOptions } from './lock';
import { blocksAround, warnOfOwnWait } from './own-wait';
import { innermostLease } from './scope';
import { traceHookOf, untraced } from './trace-hook';
import { type Body, tryUsing, using, type UsingArguments } from './using';
import { checkInstance, checkIterable, checkNumber, checkOptions, type Checks, checkSignal, checkString } from './validate';

/** Options of {@link MultiLock.acquire}: how long to wait, and as which owners. */
export interface AcquireAllOptions extends WaitOptions {
  /** Acquires the locks of these leases as the leases' owners, which already hold them. */
  within?: Iterable<Lease> | undefined;
  /** The owner's name, for people; see {@link AcquireOptions.owner}. */
  owner?: string | undefined;
}

/** Options of {@link MultiLock.tryAcquire}: the owners, and how long to wait for a server. */
export type TryAllOptions = Omit<AcquireAllOptions, 'timeout'>;

const tryChecks: Checks<TryAllOptions> = { connectTimeout: checkNumber, signal: checkSignal, within: checkIterable, owner: checkString };
const acquireChecks: Checks<AcquireAllOptions> = { ...waitChecks, within: checkIterable, owner: checkString };

/**
 * Returns whether a lock is acquired by a new owner: the caller is in no scope of the lock, and passes no lease of it.
 */
function isNew(lock: LockInternals, named: readonly Lease[]): boolean {
  return innermostLease(lock) === undefined && !named.some(({ path }) => path === lock.path);
}

/**
 * Several locks that are acquired together: all, or none, within one deadline.
 *
 * The order of the arguments does not matter. All zklock programs acquire locks in the same order: by path from the
 * ensemble's root, byte by byte, and for equal paths by the names of the servers. So two programs cannot deadlock,
 * unless they use different server names for the same two ensembles, and the same path on both. Curator's
 * `InterProcessMultiLock` keeps its caller's order, so programs that use it must sort the locks by path.
 *
 * A lock that is given twice is acquired once. The write half of a read/write lock is acquired before its read half. If
 * one lock is lost while another is awaited, the others are released and all are acquired again.
 *
 * **Re-entry** follows the rules of each lock's own `acquire()`. Inside {@link MultiLock.using}, each of the locks may
 * be entered again. If an owner already holds one of the locks, but not a lock that precedes it in the order, the
 * acquire is refused with {@link BadArgumentError}, because it would break the order.
 *
 * @example
 * const ledger = new ReadWriteLock(client, '/locks/ledger').writeLock;
 * await new MultiLock([mutex, ledger]).using((leases) => console.log(leases.length)); // 2
 */
export class MultiLock {
  readonly #native: NativeMultiLock;
  readonly #locks: readonly LockInternals[];
  readonly #pending: Pending;

  /**
   * @param locks mutexes, halves of read/write locks and semaphores, of any clients. A semaphore contributes one
   *   permit.
   * @throws {@link BadArgumentError} if there are no locks; if two of them have the same path but different kinds, or
   *   different clients of one ensemble; or if a lock that is not reentrant is given twice.
   */
  constructor(locks: Iterable<Lock>) {
    checkIterable('locks', locks);
    const members = [...locks].map((lock) => {
      checkInstance('locks', lock, Lock, 'Lock');
      return lockInternals(lock);
    });
    this.#native = native(() => new NativeMultiLock(members.map((member) => member.native)));
    this.#locks = this.#native.order.flatMap((index) => members[index] ?? []);
    this.#pending = combinePending(new Set(members.map(({ client }) => clientInternals(client).keepAlive)));
  }

  /** The paths of the locks, in the order in which they are acquired. */
  get paths(): string[] {
    return this.#locks.map(({ path }) => path);
  }

  /**
   * Acquires all locks. An attempt that times out or is aborted leaves the queues and releases the locks it has
   * acquired.
   *
   * @throws {@link LockTimeoutError} if not all locks were acquired in time. The message names the lock that was
   *   awaited.
   * @throws the signal's reason if the signal aborts.
   * @throws {@link LockLostError} or {@link NotHeldError} if a lease in `within` is not held.
   * @throws {@link BadArgumentError} if one of the locks is held but not an earlier one, if the timeout is negative, or
   *   if a lease in `within` belongs to none of the locks. Nothing is sent. Also if two of the locks turn out to be the
   *   same lock, because the hosts of their clients are different names of one ensemble.
   * @throws the errors of each lock's `acquire()`.
   *
   * @example
   * const both = new MultiLock([mutex, new Mutex(client, '/locks/import')]);
   * const leases = await both.acquire({ timeout: 5000 });
   * await leases.release();
   */
  async acquire(options: AcquireAllOptions = {}): Promise<Leases> {
    checkOptions<AcquireAllOptions>(options, acquireChecks);
    const tracing = traceHookOf(this.#traced(), () => options.within !== undefined || this.#locks.some((lock) => innermostLease(lock) !== undefined));
    if (tracing !== undefined) {
      return tracing.wait(this.paths, options.timeout === 0, () => untraced(() => this.acquire(options)));
    }
    const { timeout, connectTimeout, signal, within = [], owner } = options;
    const named = [...within];
    for (const lease of named) checkLease('within', lease);
    const [inside, around] = [nativeLeases(named), nativeLeases(this.#locks.map(innermostLease))];
    const outermost = this.#outermost();
    const blocks = timeout === 0 ? [] : blocksAround(this.#locks.filter((lock) => isNew(lock, named)));
    const attempt = run<NativeLease[]>(
      (bridge) => this.#native.acquire(bridge, { timeout, connectTimeout, owner } as NativeWait, inside, around, outermost),
      this.#pending,
      signal,
    );
    const leases = await (blocks.length === 0 ? attempt : warnOfOwnWait(blocks, attempt));
    return createLeases(
      this.#locks.flatMap(({ client }, index) => (leases[index] ? leaseOf(leases[index], client) : [])),
    );
  }

  /** Returns the lease of the outermost scope of the first client that has one. */
  #outermost(): NativeLease | undefined {
    for (const { client } of this.#locks) {
      const outermost = outermostAnchor(client);
      if (outermost !== undefined) return outermost;
    }
    return undefined;
  }

  /** Returns the first client that is traced. Its tracer also receives the locks of the other clients. */
  #traced(): ClientInternals | undefined {
    for (const { client } of this.#locks) {
      const internals = clientInternals(client);
      if (internals.tracing !== undefined) return internals;
    }
    return undefined;
  }

  /**
   * Acquires all locks if all are free, without queueing. Resolves with `null` if one is taken. Some of the locks may
   * be held for a moment before another one turns out to be taken.
   *
   * @throws {@link ConnectionFailedError} if no server replies within the connect timeout; otherwise as `acquire()`.
   *
   * @example
   * await mutex.acquire();
   * console.log(await new MultiLock([mutex]).tryAcquire()); // null
   */
  async tryAcquire(options: TryAllOptions = {}): Promise<Leases | null> {
    checkOptions<TryAllOptions>(options, tryChecks);
    return nullIf(LockTimeoutError, this.acquire({ ...options, timeout: 0 }));
  }

  /**
   * Runs `body` while holding all locks, and releases them when the body, or the promise that it returns, has ended.
   * Resolves or rejects as the body does. If a lock is lost, `leases.signal` aborts, so that the body can stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {@link LockLostError} after the body has ended, if a lock was lost meanwhile; see `Lock.using()`.
   *
   * @example
   * const all = new MultiLock([mutex, new Mutex(client, '/locks/import')]);
   * await all.using(({ signal }) => signal.throwIfAborted());
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

  /**
   * Runs `body` like `using()` if all locks are free. Otherwise does not run `body`, and resolves with `null`. See
   * `Lock.tryUsing()`.
   *
   * @throws as `tryAcquire()`, before the body runs.
   * @throws {@link LockLostError} as `using()`.
   *
   * @example
   * await mutex.acquire();
   * console.log(await new MultiLock([mutex]).tryUsing((leases) => leases.length)); // null
   */
  async tryUsing<T>(body: Body<Leases, T>): Promise<T | null>;
  async tryUsing<T>(options: TryAllOptions, body: Body<Leases, T>): Promise<T | null>;
  async tryUsing<T>(...args: UsingArguments<TryAllOptions, Leases, T>): Promise<T | null> {
    return tryUsing(
      args,
      (options) => this.tryAcquire(options),
      (_, index) => this.#locks[index]?.reentrant === true,
    );
  }
}

showAs(MultiLock.prototype, 'MultiLock', ({ paths }) => ({ paths }));
