import type { NativeClient, NativeContender, NativeLease, NativeLock, NativeWait } from '../addon';

import { run, untilDone } from './bridge';
import { Client, clientInternals } from './client';
import { type Contender, contenderOf } from './contender';
import { LockTimeoutError, nullIf } from './errors';
import { trackReentryLease, trackLease } from './events';
import { showAs } from './inspect';
import { anchorOfLease, checkLease, createInnerLease, createLease, type Lease, nativeLease } from './lease';
import { blocksAround, warnOfOwnWait } from './own-wait';
import { innermostLease, outermostLease } from './scope';
import { traceHookOf, untraced } from './trace-hook';
import { type Body, tryUsing, using, type UsingArguments } from './using';
import { checkInstance, checkNumber, checkOptions, checkInternalKey, checkSignal, checkString } from './validate';

/** Options of a semaphore. Other kinds of locks have more options. */
export interface SemaphoreOptions {
  /** A name for this contender, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /**
   * The maximum time of a hold, in ms from the grant. Re-entries do not extend it. After that the lease is lost with
   * the reason `held too long`, and the next contender gets the lock. Without a limit, a program that hangs keeps its
   * locks forever, because its heartbeats continue. The program must stop its work after this loss as after any other,
   * because the library cannot stop it. For a semaphore, the limit applies to each permit. Default: no limit.
   */
  maxHold?: number | undefined;
  /**
   * The time in ms by which the loss of a lease is reported before its term ends. The lock's node is kept until the
   * lease is released or the term ends, so the body can stop before the next contender gets the lock. At most a sixth
   * of the session timeout that the server granted. There is no grace if the lock is broken or held longer than
   * `maxHold`. Default: none.
   */
  grace?: number | undefined;
  /**
   * The maximum length of the queue. If that many contenders already wait, an acquire is refused immediately, with
   * {@link LockTimeoutError} and the reason `full`. Use it in a service that answers 503 instead of queueing. With 0,
   * an acquire never waits behind another contender.
   *
   * Holders do not count as waiters, and a re-entry is never refused. For a read/write lock, the waiters of both halves
   * count; for a semaphore, all contenders in the queue count. An acquire reads the queue first, which takes one more
   * round trip. Acquires that arrive at the same moment read the same queue, so together they can exceed the limit. The
   * limit applies only to acquires of this lock object. An acquire that does not wait is not affected. Default: no
   * limit.
   */
  maxWaiters?: number | undefined;
}

/** Options of a lock. */
export interface LockOptions extends SemaphoreOptions {
  /**
   * The naming scheme of the nodes. It decides which other programs understand them: `curator`, the default, for
   * services that use Apache Curator; `kazoo` for services that use kazoo and cannot set `extra_lock_patterns`.
   */
  naming?: 'curator' | 'kazoo' | undefined;
  /**
   * The maximum number of consecutive holds by waiters of this client before the next node in the queue is granted. Use
   * it for a mutex or a write lock if many scopes of one process contend for it. These waiters share a node: a release
   * hands the lock to the next of them without a request. They create no nodes of their own, so other clients do not
   * see them.
   *
   * The lock is less fair: a contender of another client waits for up to this many holds for each node ahead of its
   * own. Holds on one node have the same fencing token, so compare the pair of {@link Lease.fencingToken} and {@link
   * Lease.handoffs}. Cannot be combined with `maxWaiters`, which counts nodes. Default: 0, which keeps the strict order
   * of the queue.
   */
  cohort?: number | undefined;
  /**
   * The time in ms for which the client keeps the lock's node after a release, while no other client waits for the
   * lock. Use it for a lock that one client acquires repeatedly, such as the read lock of a configuration: the next
   * acquire sends no request. The client deletes the node as soon as another contender waits behind it. Until then, an
   * acquire of another client that does not wait finds the lock taken. The time counts from the first release after a
   * grant. As with `cohort`, holds on one node have the same fencing token. Default: 0, which deletes the node when the
   * lock is released.
   */
  linger?: number | undefined;
}

/** Options of a mutex. */
export interface MutexOptions extends LockOptions {
  /**
   * Whether an owner that holds the lock may acquire it again, instead of waiting like any other owner. Default: true.
   */
  reentrant?: boolean | undefined;
}

/** Options of an attempt to acquire. */
export interface WaitOptions {
  /**
   * The time limit for the whole attempt, in ms: connecting, queueing and waiting together. With 0, the attempt takes
   * the lock only if it is free, without queueing. Default: no limit.
   */
  timeout?: number | undefined;
  /**
   * For an attempt that does not wait: the time in ms in which a server must reply. Otherwise the attempt rejects with
   * {@link ConnectionFailedError}. Default: the client's connect timeout.
   */
  connectTimeout?: number | undefined;
  /** Gives up the attempt when it aborts. Has no effect once the lock is acquired. */
  signal?: AbortSignal | undefined;
}

/** Options of an acquire: how long to wait, and as which owner. */
export interface AcquireOptions extends WaitOptions {
  /**
   * Acquires as the owner of this lease, which already holds the lock. For a read/write lock, the lease may be of
   * either half.
   */
  within?: Lease | undefined;
  /**
   * The owner's name, for people: contender lists, error messages and {@link Client.health} show it with the owner's
   * number. At least one byte of UTF-8 and at most 1024; other programs see the first 64 bytes. Has no effect inside a
   * `using` scope or with `within`, because that owner already has its name.
   */
  owner?: string | undefined;
}

/** Options of a try: the owner, and how long to wait for a server. A try does not wait for the lock. */
export type TryOptions = Omit<AcquireOptions, 'timeout'>;

/** Checks for the options of all kinds of locks. */
export const optionChecks = { label: checkString, maxHold: checkNumber, grace: checkNumber, maxWaiters: checkNumber };

/** Checks for the options of mutexes and read/write locks. */
export const lockChecks = { ...optionChecks, naming: checkString, cohort: checkNumber, linger: checkNumber };

/** Checks for the options of every attempt. */
export const waitChecks = { timeout: checkNumber, connectTimeout: checkNumber, signal: checkSignal };

const tryChecks = { connectTimeout: checkNumber, signal: checkSignal, within: checkLease, owner: checkString };

const acquireChecks = { ...waitChecks, within: checkLease, owner: checkString };

/** The parts of a lock that the other modules use. */
export interface LockInternals {
  readonly native: NativeLock;
  readonly client: Client;
  readonly path: string;
  readonly reentrant: boolean;
}

/** Checks the client and the path of a new lock, and returns the native client. */
export function clientFor(client: Client, path: string): NativeClient {
  checkInstance('client', client, Client, 'Client');
  checkString('path', path);
  return clientInternals(client).native;
}

/** Creates the lease of a grant, and reports its loss to the client's `lost` listeners. */
export function leaseOf(native: NativeLease, client: Client): Lease {
  const lease = createLease(native, client);
  trackLease(client, lease);
  return lease;
}

/** Returns the lease of the client's outermost scope. Other programs see its owner. */
export function outermostAnchor(client: object): NativeLease | undefined {
  const outermost = outermostLease(client);
  return outermost && anchorOfLease(outermost);
}

let internals: (lock: Lock) => LockInternals;

/**
 * A lock that can be acquired: a mutex, one half of a read/write lock, or a semaphore.
 *
 * @example
 * const { readLock } = new ReadWriteLock(client, '/locks/catalogue');
 * for (const lock of [mutex, readLock]) console.log(await lock.locked());
 */
export class Lock {
  readonly #internals: LockInternals;

  static {
    internals = (lock) => lock.#internals;
  }

  /** @internal Not for callers: create a `Mutex`, a `ReadWriteLock` or a `Semaphore`. */
  constructor(internals: LockInternals, key: symbol) {
    checkInternalKey(key, 'create a Mutex, a ReadWriteLock or a Semaphore');
    this.#internals = internals;
  }

  /** The lock path, as given. */
  get path(): string {
    return this.#internals.path;
  }

  /** The client of the lock. */
  get client(): Client {
    return this.#internals.client;
  }

  /**
   * Acquires the lock. An attempt that times out or is aborted leaves the queue.
   *
   * @throws {@link LockTimeoutError} if the lock is not acquired in time. Its `reason` says whether the lock was taken.
   * @throws the signal's reason if the signal aborts.
   * @throws {@link ClientClosedError}, {@link ConnectionFailedError}, {@link AuthFailedError},
   *   {@link SequenceExhaustedError}.
   * @throws {@link UpgradeRefusedError} immediately, if the owner holds the read lock and requests the write lock.
   * @throws {@link LockLostError} or {@link NotHeldError} if `within` is not held.
   * @throws {@link BadArgumentError} if the timeout is negative, if `owner` is empty or too long, if `within` is a
   *   lease of another lock, or if this lock is not reentrant. Nothing is sent.
   *
   * @example
   * const lease = await mutex.acquire({ timeout: 5000, signal: AbortSignal.timeout(2000) });
   * const again = await mutex.acquire({ within: lease });
   * console.log(again.node === lease.node); // true
   */
  async acquire(options?: AcquireOptions): Promise<Lease> {
    if (options !== undefined) checkOptions<AcquireOptions>(options, acquireChecks);
    const tracing = traceHookOf(clientInternals(this.#internals.client), () => this.#isInner(options));
    if (tracing !== undefined) {
      return tracing.wait([this.path], options?.timeout === 0, () => untraced(() => this.acquire(options)));
    }
    const { timeout, connectTimeout, signal, within, owner } = options ?? {};
    const wait = options && ({ timeout, connectTimeout, owner } as NativeWait);
    const { native, client } = this.#internals;
    const named = within && nativeLease(within);
    const around = this.#around();
    const outermost = outermostAnchor(client);
    const blocks = timeout === 0 || named !== undefined || around !== undefined ? [] : blocksAround([this.#internals]);
    const attempt = run<NativeLease>(
      (bridge) => native.acquire(bridge, wait, named, around, outermost),
      clientInternals(client).keepAlive,
      signal,
    );
    return leaseOf(await (blocks.length === 0 ? attempt : warnOfOwnWait(blocks, attempt)), client);
  }

  /** Returns whether the caller already holds the lock, so that the acquire begins no new hold. */
  #isInner(options?: AcquireOptions): boolean {
    return this.#internals.reentrant && (options?.within ?? innermostLease(this.#internals)) !== undefined;
  }

  /** Returns the lease of the innermost scope of this lock, inside which an acquire re-enters. */
  #around(): NativeLease | undefined {
    const around = innermostLease(this.#internals);
    return around && anchorOfLease(around);
  }

  /**
   * Returns another lease for the owner of the innermost scope, without the promises of `acquire()`; `undefined`
   * outside scopes.
   */
  #again(): Lease | undefined {
    const { native, client } = this.#internals;
    const around = this.#around();
    const id = around && native.again(around);
    if (around === undefined || typeof id !== 'number') return undefined;
    return trackReentryLease(client, (tracker) => createInnerLease(around, id, client, tracker));
  }

  /**
   * Acquires the lock if it is free, without queueing. Resolves with `null` if the lock is taken.
   *
   * @throws {@link ConnectionFailedError} if no server replies within the connect timeout; otherwise as `acquire()`.
   *
   * @example
   * await mutex.acquire();
   * console.log(await mutex.tryAcquire({ connectTimeout: 500 })); // null
   */
  async tryAcquire(options: TryOptions = {}): Promise<Lease | null> {
    checkOptions<TryOptions>(options, tryChecks);
    return nullIf(LockTimeoutError, this.acquire({ ...options, timeout: 0 }));
  }

  /**
   * Runs `body` while holding the lock, and releases the lock when the body, or the promise that it returns, has ended.
   * Resolves or rejects as the body does. If the lock is lost, `lease.signal` aborts, so that the body can stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {@link LockLostError} after the body has ended, if the lock was lost meanwhile. If the body fails, its own
   *   error is thrown instead, with the loss at the end of its chain of causes. But an `AbortError` that the loss
   *   caused is replaced by the `LockLostError`.
   *
   * @example
   * const node = await mutex.using({ timeout: 5000 }, (lease) => lease.node);
   * console.log(node.startsWith('/locks/report/')); // true
   */
  using<T>(body: Body<Lease, T>): Promise<T>;
  using<T>(options: AcquireOptions, body: Body<Lease, T>): Promise<T>;
  using<T>(...args: UsingArguments<AcquireOptions, Lease, T>): Promise<T> {
    return using(
      args,
      (options) => this.acquire(options),
      () => this.#internals.reentrant,
      () => this.#again(),
    );
  }

  /**
   * Runs `body` like `using()` if the lock is free. Otherwise does not run `body`, and resolves with `null`. If the
   * body itself can return `null`, it must report in another way that it ran.
   *
   * @throws as `tryAcquire()`, before the body runs.
   * @throws {@link LockLostError} as `using()`.
   *
   * @example
   * await mutex.acquire();
   * console.log(await mutex.tryUsing(() => 'done')); // null
   */
  async tryUsing<T>(body: Body<Lease, T>): Promise<T | null>;
  async tryUsing<T>(options: TryOptions, body: Body<Lease, T>): Promise<T | null>;
  async tryUsing<T>(...args: UsingArguments<TryOptions, Lease, T>): Promise<T | null> {
    return tryUsing(
      args,
      (options) => this.tryAcquire(options),
      () => this.#internals.reentrant,
    );
  }

  /**
   * Lists the contenders for the lock in queue order, beginning with the holders. The list ends after 100,000
   * contenders. Takes three round trips for up to 1,000 contenders, and two more for each further 1,000.
   *
   * @throws {@link ConnectionFailedError} if no server replies within the connect timeout.
   * @throws {@link ClientClosedError} once the client is closed.
   *
   * @example
   * const lease = await mutex.acquire();
   * for (const { position, node, about } of await mutex.contenders()) console.log(position, node, about?.host);
   */
  async contenders(): Promise<Contender[]> {
    const { native } = this.#internals;
    const contenders = await run<NativeContender[]>((bridge) => native.contenders(bridge), untilDone);
    return contenders.map(contenderOf);
  }

  /**
   * Returns whether any contender holds the lock or waits for it; for a semaphore, whether no permit is free. The
   * answer may be out of date when the promise resolves. Takes one round trip.
   *
   * @throws as `contenders()`.
   *
   * @example
   * console.log(await mutex.locked()); // false
   */
  async locked(): Promise<boolean> {
    const { native } = this.#internals;
    return run<boolean>((bridge) => native.locked(bridge), untilDone);
  }
}

showAs(Lock.prototype, 'Lock', ({ path }) => ({ path }));

export { internals as lockInternals };
