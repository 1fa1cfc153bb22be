import { type NativeLease, NativeMultiLock, type NativeWait } from '../addon';

import { run } from './bridge';
import { type ClientInternals, clientInternals } from './client';
import { LockTimeoutError, native, nullIf } from './errors';
import { showAs } from './inspect';
import { type Pending, together } from './keep-alive';
import { checkLease, type Lease, nativeLeases } from './lease';
import { createLeases, type Leases } from './leases';
import { leaseOf, Lock, lockInternals, type LockInternals, outermostAnchor, waitChecks, type WaitOptions } from './lock';
import { blocksAround, namingOwnWait } from './own-wait';
import { innermostLease } from './scope';
import { traceHookOf, untraced } from './trace-hook';
import { type Body, tryUsing, using, type UsingArguments } from './using';
import { checkInstance, checkIterable, checkNumber, checkOptions, type Checks, checkSignal, checkString } from './validate';

/** How long to wait, and as which owners. */
export interface AcquireAllOptions extends WaitOptions {
  /** Acquires the locks of these leases as their owners, who already hold them. */
  within?: Iterable<Lease> | undefined;
  /** A name for people; see {@link AcquireOptions.owner}. */
  owner?: string | undefined;
}

/** As which owners to try, and until when: a try may still wait for a server. */
export type TryAllOptions = Omit<AcquireAllOptions, 'timeout'>;

const tryChecks: Checks<TryAllOptions> = { connectTimeout: checkNumber, signal: checkSignal, within: checkIterable, owner: checkString };
const acquireChecks: Checks<AcquireAllOptions> = { ...waitChecks, within: checkIterable, owner: checkString };

/** Whether a lock is acquired by a new owner: the caller is in none of its scopes, and names no lease of it. */
function isNew(lock: LockInternals, named: readonly Lease[]): boolean {
  return innermostLease(lock) === undefined && !named.some(({ path }) => path === lock.path);
}

/**
 * Several locks as one: all are acquired, or none, within one deadline.
 *
 * Whatever order they are given in, they are acquired in an order that all zklock programs share: by path from the
 * ensemble's root, byte by byte, and on one path by the names of the servers. So two programs cannot wait for each
 * other, unless both take one path on two ensembles that they call by different names. Curator's `InterProcessMultiLock`
 * keeps its caller's order: such peers must sort by path. A lock that is given twice is acquired once; the write half of
 * a read/write lock is acquired before its read half. If one is lost while another is waited for, the others are
 * released and all are acquired again.
 *
 * **Who may re-enter** is decided for each lock as in its own `acquire()`; inside {@link MultiLock.using}, each of the
 * locks may be entered again. An owner that holds one of them but not one that comes before it is refused with
 * {@link BadArgumentError}: acquiring that one now would break the order.
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
   * @param locks mutexes, halves of read/write locks and semaphores, of any clients. One permit of a semaphore is
   *   taken.
   * @throws {@link BadArgumentError} if there are no locks; if two of them have the same path but different clients of one
   *   ensemble, or different kinds; or if a lock that is not reentrant is given twice.
   */
  constructor(locks: Iterable<Lock>) {
    checkIterable('locks', locks);
    const members = [...locks].map((lock) => {
      checkInstance('locks', lock, Lock, 'Lock');
      return lockInternals(lock);
    });
    this.#native = native(() => new NativeMultiLock(members.map((member) => member.native)));
    this.#locks = this.#native.order.flatMap((index) => members[index] ?? []);
    this.#pending = together(new Set(members.map(({ client }) => clientInternals(client).keepAlive)));
  }

  /** The paths of the locks, in the order in which they are acquired. */
  get paths(): string[] {
    return this.#locks.map(({ path }) => path);
  }

  /**
   * Acquires all of them. An attempt that times out or is aborted leaves the queues and releases what it has acquired.
   *
   * @throws {@link LockTimeoutError} if not all were acquired in time. The message names the lock that it waited for.
   * @throws the signal's reason if the signal aborts.
   * @throws {@link LockLostError} or {@link NotHeldError} if a lease in `within` is not held.
   * @throws {@link BadArgumentError} if one of the locks is held but not one before it, if the time-out is negative, or if a
   *   lease in `within` is of none of the locks: nothing is sent. Also if two of the locks turn out to be one, because
   *   the hosts of their clients are different names of one ensemble.
   * @throws as `acquire()` of each of the locks.
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
    const leases = await (blocks.length === 0 ? attempt : namingOwnWait(blocks, attempt));
    return createLeases(
      this.#locks.flatMap(({ client }, index) => (leases[index] ? leaseOf(leases[index], client) : [])),
    );
  }

  /** The lease of the outermost scope of the first of its clients that has one. */
  #outermost(): NativeLease | undefined {
    for (const { client } of this.#locks) {
      const outermost = outermostAnchor(client);
      if (outermost !== undefined) return outermost;
    }
    return undefined;
  }

  /** The first of its clients that is traced: its tracer is told of the others' locks, too. */
  #traced(): ClientInternals | undefined {
    for (const { client } of this.#locks) {
      const internals = clientInternals(client);
      if (internals.tracing !== undefined) return internals;
    }
    return undefined;
  }

  /**
   * Acquires all of them if all are free, without queueing; resolves with `null` if one is taken. Some may be held for
   * a moment before one turns out to be taken.
   *
   * @throws {@link ConnectionFailedError} if no server answers within the connect time-out; otherwise as `acquire()`.
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
   * Runs `body` while holding all of them, and releases them when the body, or the promise that it returns, has ended.
   * Resolves or rejects as the body does. If one is lost, `leases.signal` aborts, so that the body can stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {@link LockLostError} when the body has ended, if a lock was lost meanwhile; see `Lock.using()`.
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
   * As `using()`, if all are free; otherwise does not run `body`, and resolves with `null`. See `Lock.tryUsing()`.
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
