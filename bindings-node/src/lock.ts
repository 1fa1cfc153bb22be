import type { NativeClient, NativeContender, NativeLease, NativeLock, NativeWait } from '../addon';

import { run, untilDone } from './bridge';
import { Client, clientInternals } from './client';
import { type Contender, contenderOf } from './contender';
import { LockTimeoutError, nullIf } from './errors';
import { trackBriefLease, trackLease } from './events';
import { showAs } from './inspect';
import { anchorOfLease, checkLease, createInnerLease, createLease, type Lease, nativeLease } from './lease';
import { blocksAround, namingOwnWait } from './own-wait';
import { innermostLease, outermostLease } from './scope';
import { traceHookOf, untraced } from './trace-hook';
import { type Body, tryUsing, using, type UsingArguments } from './using';
import { checkInstance, checkNumber, checkOptions, checkOurs, checkSignal, checkString } from './validate';

/** How a semaphore behaves; locks of other kinds have more options. */
export interface SemaphoreOptions {
  /** A name for this contender, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /**
   * For how long the lock may be held, in ms from the grant on, however often its owner acquires it again. Then the lease
   * is lost, for the reason `held too long`, and the next contender gets the lock. Without it a program that hangs keeps
   * its locks for ever, for the heartbeat goes on. Stop on this loss as on any other: nothing else ends what the program
   * does under the lock. For a semaphore it is the limit of each permit. Default: no limit.
   */
  maxHold?: number | undefined;
  /**
   * How long before the end of its term the lease is reported lost, in ms: its body can stop before the next contender
   * gets the lock, because the node is kept until the lease is released or that term ends. At most a sixth of the session
   * time-out that the server granted. A lock that is broken, or held for longer than `maxHold`, has no grace. Default:
   * none.
   */
  grace?: number | undefined;
  /**
   * How many contenders may wait for the lock at most when this one joins them. An acquire that would have to wait behind
   * this many is refused at once, with {@link LockTimeoutError} for the reason `full`: for a service that answers 503
   * rather than queue. With 0 it never waits behind anybody. Holders are no waiters, and one that acquires the lock again
   * is never refused; for a read/write lock the waiters of both halves count, and for a semaphore all that take turns. An
   * acquire reads the queue first, which costs a round trip more; those that arrive at the same moment read the same
   * queue, so the limit holds but for those. It is a limit of this lock object. A try does not wait in any case. Default:
   * no limit.
   */
  maxWaiters?: number | undefined;
}

/** How a lock behaves. */
export interface LockOptions extends SemaphoreOptions {
  /**
   * How nodes are named, which decides who else understands them: `curator`, the default, for services that use Apache
   * Curator; `kazoo` for those that use kazoo and cannot set `extra_lock_patterns`.
   */
  naming?: 'curator' | 'kazoo' | undefined;
  /**
   * How many holds may follow each other on one node within this client, before the queue of all clients gets its turn:
   * for a mutex or a write lock that many scopes of one process contend for. The release hands the lock to the client's next
   * waiter without a request. Waiters that will be served so create no nodes, so other clients do not see them, and a
   * contender of another client waits for up to this many holds for each node before its own. Holds on one node share
   * their fencing token: compare the pair of {@link Lease.fencingToken} and {@link Lease.handoffs}. Not together with
   * `maxWaiters`, which counts nodes. Default: 0, which keeps the strict order of the queue.
   */
  cohort?: number | undefined;
  /**
   * For how long the lock's node is kept after a release, in ms, while nobody else waits for it: for a lock that
   * one client takes again and again, such as the read lock of a configuration. Taking it again sends no request. The
   * client gives the node up as soon as a contender joins that has to wait for it; until then a try of another client
   * finds the lock taken. The time counts from the first release after a grant. As with `cohort`, holds on one node share
   * their fencing token. Default: 0, which deletes the node when the lock is released.
   */
  linger?: number | undefined;
}

/** How a mutex behaves. */
export interface MutexOptions extends LockOptions {
  /**
   * Whether an owner that holds the lock may acquire it again, instead of waiting like any other owner. Default: true.
   */
  reentrant?: boolean | undefined;
}

/** How long to wait. */
export interface WaitOptions {
  /**
   * How long the whole attempt may take, in ms: connecting, queueing and waiting. With 0 it takes the lock only if it
   * is free, without queueing. Default: no limit.
   */
  timeout?: number | undefined;
  /**
   * For an attempt that does not wait: how long a server may take to answer, in ms, before it rejects with
   * {@link ConnectionFailedError}. Default: the client's own.
   */
  connectTimeout?: number | undefined;
  /** Gives up the attempt when it aborts. Has no effect once the lock is acquired. */
  signal?: AbortSignal | undefined;
}

/** How long to wait, and as which owner. */
export interface AcquireOptions extends WaitOptions {
  /** Acquires as the owner of this lease, who already holds the lock; for a read/write lock, either half of it. */
  within?: Lease | undefined;
  /**
   * A name for people: other contenders, error messages and {@link Client.health} show it with the owner's number. At least
   * one byte of UTF-8 and at most 1024, of which others are shown the first 64. Inside a `using` scope, and with `within`,
   * the owner has its name already, and this has no effect.
   */
  owner?: string | undefined;
}

/** As which owner to try, and until when: a try may still wait for a server. */
export type TryOptions = Omit<AcquireOptions, 'timeout'>;

/** How the options of locks of all kinds are checked. */
export const optionChecks = { label: checkString, maxHold: checkNumber, grace: checkNumber, maxWaiters: checkNumber };

/** How the options of mutexes and read/write locks are checked. */
export const lockChecks = { ...optionChecks, naming: checkString, cohort: checkNumber, linger: checkNumber };

/** How the options of every wait are checked. */
export const waitChecks = { timeout: checkNumber, connectTimeout: checkNumber, signal: checkSignal };

const tryChecks = { connectTimeout: checkNumber, signal: checkSignal, within: checkLease, owner: checkString };

const acquireChecks = { ...waitChecks, within: checkLease, owner: checkString };

/** What the other classes need from a lock. */
export interface LockInternals {
  readonly native: NativeLock;
  readonly client: Client;
  readonly path: string;
  readonly reentrant: boolean;
}

/** Checks what every lock is created on; returns the native client. */
export function clientFor(client: Client, path: string): NativeClient {
  checkInstance('client', client, Client, 'Client');
  checkString('path', path);
  return clientInternals(client).native;
}

/** The lease of what was acquired on a client, which tells of its loss. */
export function leaseOf(native: NativeLease, client: Client): Lease {
  const lease = createLease(native, client);
  trackLease(client, lease);
  return lease;
}

/** The lease of the outermost scope of a client, whose owner others are told of. */
export function outermostAnchor(client: object): NativeLease | undefined {
  const outermost = outermostLease(client);
  return outermost && anchorOfLease(outermost);
}

let internals: (lock: Lock) => LockInternals;

/**
 * What can be acquired: a mutex, a half of a read/write lock, or a semaphore.
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
    checkOurs(key, 'create a Mutex, a ReadWriteLock or a Semaphore');
    this.#internals = internals;
  }

  /** The lock path, as given. */
  get path(): string {
    return this.#internals.path;
  }

  /** The client on which the lock is. */
  get client(): Client {
    return this.#internals.client;
  }

  /**
   * Acquires the lock. An attempt that times out or is aborted leaves the queue.
   *
   * @throws {@link LockTimeoutError} if it is not acquired in time. Its `reason` says whether it was taken.
   * @throws the signal's reason if the signal aborts.
   * @throws {@link ClientClosedError}, {@link ConnectionFailedError}, {@link AuthFailedError},
   *   {@link SequenceExhaustedError}.
   * @throws {@link UpgradeRefusedError} at once, if the owner holds the read lock and asks for the write lock.
   * @throws {@link LockLostError} or {@link NotHeldError} if `within` is not held.
   * @throws {@link BadArgumentError} if the time-out is negative, if `owner` is empty or too long, if `within` is a lease of
   *   another lock, or if this lock is not reentrant. Nothing is sent.
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
    const { native, client } = this.#internals;
    const named = within && nativeLease(within);
    const around = this.#around();
    const outermost = outermostAnchor(client);
    const blocks = timeout === 0 || named !== undefined || around !== undefined ? [] : blocksAround([this.#internals]);
    const attempt = run<NativeLease>(
      (bridge) => native.acquire(bridge, { timeout, connectTimeout, owner } as NativeWait, named, around, outermost),
      clientInternals(client).keepAlive,
      signal,
    );
    return leaseOf(await (blocks.length === 0 ? attempt : namingOwnWait(blocks, attempt)), client);
  }

  /** Whether the caller holds the lock: then this begins no hold. */
  #isInner(options?: AcquireOptions): boolean {
    return this.#internals.reentrant && (options?.within ?? innermostLease(this.#internals)) !== undefined;
  }

  /** The lease that this would be acquired in: that of the innermost scope of this lock. */
  #around(): NativeLease | undefined {
    const around = innermostLease(this.#internals);
    return around && anchorOfLease(around);
  }

  /** Another lease of the innermost scope's owner, without the promises of `acquire()`; none outside of scopes. */
  #again(): Lease | undefined {
    const { native, client } = this.#internals;
    const around = this.#around();
    const id = around && native.again(around);
    if (around === undefined || typeof id !== 'number') return undefined;
    return trackBriefLease(client, (brief) => createInnerLease(around, id, client, brief));
  }

  /**
   * Acquires the lock if it is free, without queueing; resolves with `null` if it is taken.
   *
   * @throws {@link ConnectionFailedError} if no server answers within the connect time-out; otherwise as `acquire()`.
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
   * @throws {@link LockLostError} when the body has ended, if the lock was lost meanwhile. An error of the body's own goes on,
   *   with the loss at the end of its chain of causes, unless it is an `AbortError` that the loss caused.
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
   * As `using()`, if the lock is free; otherwise does not run `body`, and resolves with `null`. A body that may itself
   * return `null` has to say otherwise whether it ran.
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
   * The contenders for the lock, in the order of the queue: first those that hold it. The first hundred thousand are
   * listed. Takes three round trips for up to a thousand, and two for each further thousand.
   *
   * @throws {@link ConnectionFailedError} if no server answers within the connect time-out.
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
   * Whether any contender holds the lock or waits for it; for a semaphore, whether no permit is free. This may have
   * changed by the time the promise resolves. Takes one round trip.
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
