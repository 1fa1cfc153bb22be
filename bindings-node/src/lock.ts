import { type NativeContender, type NativeLease, NativeLock } from '../native';

import { run, untilDone } from './bridge';
import { checkBoolean, checkInstance, checkNumber, checkOptions, checkSignal, checkString } from './check';
import { Client, clientInternals } from './client';
import { type Contender, contenderOf } from './contender';
import { BadArgumentError, LockTimeoutError, native, nullIf } from './errors';
import { createLease, Lease, leaseInternals } from './lease';
import { innermostLease } from './scope';
import { type Body, using, type UsingArguments } from './using';

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

export interface WaitOptions {
  /**
   * How long the attempt may take, in ms, everything included: connecting, queueing and waiting. 0 takes the lock
   * only if it is free, without queueing. Default: as long as it takes.
   */
  timeout?: number | undefined;
  /** Gives the attempt up when it aborts. Without effect once the lock is acquired. */
  signal?: AbortSignal | undefined;
}

export interface AcquireOptions extends WaitOptions {
  /** Acquires as the owner of this lease, who holds the lock already. Of a read/write lock it may be either half's. */
  within?: Lease | undefined;
}

export function checkLease(name: string, value: unknown): void {
  checkInstance(name, value, Lease);
}

/** How the options of every wait are checked. */
export const waitChecks = { timeout: checkNumber, signal: checkSignal };

/** What the other classes need of a lock. */
export interface LockInternals {
  readonly native: NativeLock;
  readonly client: Client;
  readonly path: string;
  readonly reentrant: boolean;
}

/** What a mutex, or a half of a read/write lock, is made of. */
export function lockOf(
  kind: 'mutex' | 'read' | 'write',
  client: Client,
  path: string,
  options: MutexOptions,
): LockInternals {
  checkInstance('client', client, Client);
  checkString('path', path);
  checkOptions<MutexOptions>(options, { reentrant: checkBoolean, label: checkString, naming: checkString });
  const { reentrant = true, label, naming } = options;
  const lock = native(() => new NativeLock(kind, clientInternals(client).native, path, reentrant, label, naming));
  return { native: lock, client, path, reentrant };
}

let internals: (lock: Lock) => LockInternals;

/** What can be acquired: a mutex, a half of a read/write lock, or a semaphore. */
export class Lock {
  readonly #internals: LockInternals;

  static {
    internals = (lock) => lock.#internals;
  }

  /** @internal Not for callers: a lock is a `Mutex` or a `Semaphore`, or belongs to a `ReadWriteLock`. */
  constructor(internals: LockInternals) {
    this.#internals = internals;
  }

  /** The lock path, as given. */
  get path(): string {
    return this.#internals.path;
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
    checkOptions<AcquireOptions>(options, { ...waitChecks, within: checkLease });
    const { timeout, signal, within } = options;
    if (within !== undefined) this.#checkWithin(within);
    const { native, client, path, reentrant } = this.#internals;
    const owner = reentrant ? (within ?? innermostLease(client, path)) : undefined;
    const lease = await run<NativeLease>(
      (bridge) => native.acquire(bridge, timeout, owner && leaseInternals(owner).native),
      clientInternals(client).keepAlive,
      signal,
    );
    return createLease(lease, client);
  }

  #checkWithin(within: Lease): void {
    const { client, path, reentrant } = this.#internals;
    if (!reentrant) throw new BadArgumentError('within: this lock does not re-enter');
    if (leaseInternals(within).client !== client || within.path !== path) {
      throw new BadArgumentError(`within: must be a lease of ${path} on the same client, but is of ${within.path}`);
    }
    within.check();
  }

  /**
   * Acquires the lock if it is free, without queueing; `null` if it is taken.
   *
   * @throws {ConnectionFailedError} if nothing answers within the connect time-out, and as `acquire()`.
   */
  async tryAcquire(): Promise<Lease | null> {
    return nullIf(LockTimeoutError, this.acquire({ timeout: 0 }));
  }

  /**
   * Runs `body` while holding the lock, and releases it when the body, or the promise that it returns, is done.
   * Resolves or rejects as the body does. When the lock is lost, `lease.signal` aborts, for the body to stop.
   *
   * @throws as `acquire()`, before the body runs.
   * @throws {LockLostError} at the end of the body, if the lock was lost meanwhile; its cause is what the body threw.
   */
  async using<T>(body: Body<Lease, T>): Promise<T>;
  async using<T>(options: AcquireOptions, body: Body<Lease, T>): Promise<T>;
  async using<T>(...args: UsingArguments<AcquireOptions, Lease, T>): Promise<T> {
    return using(
      args,
      (options) => this.acquire(options),
      () => this.#internals.reentrant,
    );
  }

  /**
   * Who contends for the lock, in the order of the queue: those that hold it first. Two round trips, however many there
   * are.
   *
   * @throws {ConnectionFailedError} if no server answers within the connect time-out.
   * @throws {ClientClosedError} after the client was closed.
   */
  async contenders(): Promise<Contender[]> {
    const { native } = this.#internals;
    const contenders = await run<NativeContender[]>((bridge) => native.contenders(bridge), untilDone);
    return contenders.map(contenderOf);
  }

  /**
   * Whether anybody holds the lock or waits for it; of a semaphore, whether no permit is free. As of now: it may have
   * changed when the promise resolves. One round trip.
   *
   * @throws as `contenders()`.
   */
  async locked(): Promise<boolean> {
    const { native } = this.#internals;
    return run<boolean>((bridge) => native.locked(bridge), untilDone);
  }
}

export { internals as lockInternals };
