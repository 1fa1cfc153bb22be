import { mutex, type NativeLockOptions, type NativeTurn, type NativeWait } from '../addon';

import { run, untilDone } from './bridge';
import { type Client, clientInternals } from './client';
import { native } from './errors';
import { showAs } from './inspect';
import { anchorOfLease, type Lease } from './lease';
import { clientFor, leaseOf, Lock, lockChecks, lockInternals, type MutexOptions, outermostAnchor } from './lock';
import { blocksAround, warnOfOwnWait } from './own-wait';
import { innermostLease } from './scope';
import { traceHookOf } from './trace-hook';
import { type Body, usingTurn } from './using';
import { checkBoolean, checkFunction, checkNumber, checkOptions, checkSignal, checkString, internalKey } from './validate';

/** Options of {@link Mutex.once} and {@link Mutex.oncePer}. */
export interface OnceOptions {
  /** How long to wait for the lock, in ms. With 0 the body runs only if the lock is free. Default: no limit. */
  timeout?: number | undefined;
  /** Gives up the wait for the lock when it aborts. Has no effect once the body runs. */
  signal?: AbortSignal | undefined;
  /**
   * When the slot is recorded: after the `body` has succeeded, or at the `start`, so that the body runs at most once.
   * Default: `body`.
   */
  record?: 'body' | 'start' | undefined;
  /** The owner's name, for people; see {@link AcquireOptions.owner}. */
  owner?: string | undefined;
}

/**
 * A fair, reentrant, exclusive lock in the node layout of Curator's `InterProcessMutex`.
 *
 * Waiters are served in the order in which the server queued them. Two lock objects with the same client and path are
 * one lock. Creating a lock object sends nothing.
 *
 * **Re-entry.** An `acquire()` inside a {@link Mutex.using} scope of the same client and path re-enters the lock. All
 * branches of a `Promise.all` inside the scope re-enter too, and share the lock. A callback that outlives the scope is
 * a new owner. Outside scopes, every `acquire()` is a new owner, which waits for the other owners. To re-enter outside
 * a scope, pass a lease as `within`. With `reentrant: false` no owner re-enters, and an `acquire()` inside the lock's
 * own scope waits until that scope ends.
 *
 * @example
 * const mutex = new Mutex(client, '/locks/report', { label: 'nightly' });
 * await mutex.using((lease) => console.log(`token ${lease.fencingToken}`));
 */
export class Mutex extends Lock {
  /**
   * @param client the client of the lock. If it is not connected yet, it connects at the first acquire.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @throws {@link BadArgumentError} if the path is malformed.
   */
  constructor(client: Client, path: string, options: MutexOptions = {}) {
    const on = clientFor(client, path);
    checkOptions<MutexOptions>(options, { ...lockChecks, reentrant: checkBoolean });
    const { reentrant = true } = options;
    super({ native: native(() => mutex(on, path, options as NativeLockOptions)), client, path, reentrant }, internalKey);
  }

  /**
   * Runs `body` with the lease unless this slot is already recorded, then records the slot and releases the lock.
   * Resolves with the result of the body, or with `null` if the slot was already recorded.
   *
   * The lock has a single record, which holds the last slot, and which all processes share. The record is a node next
   * to the lock directory, with `.once` appended to the directory's path. Because only the last slot is recorded, the
   * calls A, B, A run A twice: do not use idempotency keys as slots. If the body fails, the process crashes or the lock
   * is lost, nothing is recorded, and a later call runs the slot again. If the lock is lost, `lease.signal` aborts, so
   * that the body can stop. The body must not release the lease. Inside a {@link Mutex.using} scope, `once()` re-enters
   * the lock.
   *
   * @param key the name of the slot: 1 to 256 bytes of UTF-8 without control characters.
   * @throws {@link LockTimeoutError} if the lock is not acquired in time.
   * @throws {@link LockLostError} if the lock was lost before the slot was recorded.
   * @throws {@link AuthFailedError} before the body if the record may not be read, and after the body if it may not be
   *   written.
   * @throws {@link BadArgumentError} if an argument is malformed, or if the record was not written by this library.
   * @throws the body's error; the signal's reason if it aborts before the body runs; other errors as `acquire()`.
   *
   * @example
   * console.log(await mutex.once('2026-11-26', () => 'a report')); // a report
   * console.log(await mutex.once('2026-11-26', () => 'a report')); // null
   */
  async once<T>(key: string, body: Body<Lease, T>, options: OnceOptions = {}): Promise<T | null> {
    checkString('key', key);
    return this.#once(key, body, options);
  }

  /**
   * Runs `body` at most once in each period of this length: `once()` with the current period as the slot.
   *
   * Periods are counted from the beginning of 1970 by the local clock, so a period of one day begins at midnight UTC.
   * The period in which the lock is acquired counts. The body runs only if this period is later than the recorded one,
   * so it does not run on a host whose clock is too far behind.
   *
   * @param period length of a period in ms, at least 1000.
   * @throws the same errors as `once()`.
   *
   * @example
   * console.log(await mutex.oncePer(3_600_000, () => 'cleaned up')); // cleaned up
   * console.log(await mutex.oncePer(3_600_000, () => 'cleaned up')); // null
   */
  async oncePer<T>(period: number, body: Body<Lease, T>, options: OnceOptions = {}): Promise<T | null> {
    checkNumber('period', period);
    return this.#once(period, body, options);
  }

  async #once<T>(slot: string | number, body: Body<Lease, T>, options: OnceOptions): Promise<T | null> {
    checkFunction('body', body);
    checkOptions<OnceOptions>(options, onceChecks);
    const { timeout, signal, record = 'body', owner } = options;
    const lock = lockInternals(this);
    const { native, client, path, reentrant } = lock;
    const [around, outermost] = [innermostLease(lock), outermostAnchor(client)];
    const blocks = timeout === 0 || around !== undefined ? [] : blocksAround([lock]);
    const taken: { turn?: NativeTurn | null } = {};
    const acquire = async (): Promise<Lease | null> => {
      const attempt = run<NativeTurn | null>(
        (bridge) => native.once(bridge, slot, record, { timeout, owner } as NativeWait, around && anchorOfLease(around), outermost),
        clientInternals(client).keepAlive,
        signal,
      );
      taken.turn = await (blocks.length === 0 ? attempt : warnOfOwnWait(blocks, attempt));
      return taken.turn && leaseOf(taken.turn.lease(), client);
    };
    const tracing = traceHookOf(clientInternals(client), () => reentrant && around !== undefined);
    const lease = await (tracing === undefined ? acquire() : tracing.wait([path], timeout === 0, acquire));
    const { turn = null } = taken;
    if (lease === null || turn === null) return null;
    return usingTurn(lease, body, reentrant, async () => {
      await run<undefined>((bridge) => turn.record(bridge), untilDone);
    });
  }
}

const onceChecks = { timeout: checkNumber, signal: checkSignal, record: checkString, owner: checkString };

showAs(Mutex.prototype, 'Mutex', ({ path }) => ({ path }));
