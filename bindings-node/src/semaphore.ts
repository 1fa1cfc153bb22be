import { type NativeLease, type NativeLockOptions, NativeSemaphore } from '../addon';

import { run } from './bridge';
import { type Client, clientInternals } from './client';
import { native } from './errors';
import { showAs } from './inspect';
import { createLeases, type Leases } from './leases';
import { clientFor, leaseOf, Lock, lockInternals, optionChecks, outermostAnchor, type SemaphoreOptions, waitChecks, type WaitOptions } from './lock';
import { traceHookOf, untraced } from './trace-hook';
import { checkNames, checkNumber, checkOptions, checkString, checkType, type Names, internalKey } from './validate';

/** The source of the number of permits, if the number is not fixed. */
export interface SharedCount {
  /**
   * Path of a node in the format of Curator's `SharedCount`, below the client's chroot: four bytes, most significant
   * first. Every acquire reads it, and waiters are notified of changes.
   */
  sharedCount: string;
}

/**
 * A fair semaphore with a limited number of permits, in the node layout of Curator's `InterProcessSemaphoreV2`.
 *
 * Contenders queue, and only the first contender in the queue takes permits. So a small request cannot overtake a
 * larger one, and two contenders cannot block each other by each holding some of the permits that both need.
 *
 * **Permits have no owner.** Every `acquire()` takes another permit, even inside a `using` scope, and returns a new
 * lease. Do not compare the fencing tokens of permits that are held at the same time.
 *
 * All contenders on a path must agree on the number of permits. A contender checks the number when it first uses the
 * path and when it has to wait. If it finds a different number, it is refused with {@link PermitsMismatchError}.
 *
 * `tryAcquire()` and a timeout of 0 do not wait for a permit. They wait up to two seconds for another contender that is
 * taking permits at that moment.
 *
 * `contenders()` first lists the nodes below `leases/`: one for each permit that is held, or that the first contender
 * in the queue is taking. Then it lists the nodes below `locks/`, which are the queue of contenders that do not have
 * their permits yet. `locked()` returns whether no permit is free.
 *
 * @example
 * const slots = new Semaphore(client, '/locks/upstream', 5);
 * await slots.using((lease) => console.log(`one of ${slots.permits}: ${lease.node}`));
 */
export class Semaphore extends Lock {
  readonly #native: NativeSemaphore;
  readonly #permits: number | SharedCount;

  /**
   * @param client the client of the semaphore. If it is not connected yet, it connects at the first acquire.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @param permits the number of permits, or the node that contains it.
   * @throws {@link BadArgumentError} if the path is malformed or the number is below 1.
   */
  constructor(client: Client, path: string, permits: number | SharedCount, options: SemaphoreOptions = {}) {
    const on = clientFor(client, path);
    checkPermits(permits);
    checkOptions<SemaphoreOptions>(options, optionChecks);
    const fixed = typeof permits === 'number' ? permits : undefined;
    const sharedCount = typeof permits === 'number' ? undefined : permits.sharedCount;
    const semaphore = native(() => new NativeSemaphore(on, path, fixed, sharedCount, options as NativeLockOptions));
    super({ native: semaphore.asLock(), client, path, reentrant: false }, internalKey);
    this.#native = semaphore;
    this.#permits = typeof permits === 'number' ? permits : Object.freeze({ sharedCount: permits.sharedCount });
  }

  /** The number of permits, or the node that contains it, as given. */
  get permits(): number | Readonly<SharedCount> {
    return this.#permits;
  }

  /**
   * Acquires several permits, all or none. Smaller requests cannot overtake this one. If it requests more permits than
   * the current shared count, it waits until the count has grown.
   *
   * @throws as `acquire()`; with a timeout of 0, {@link LockTimeoutError} if too few permits are free.
   * @throws {@link BadArgumentError} if the count is below 1 or above a fixed number of permits.
   *
   * @example
   * const leases = await new Semaphore(client, '/locks/upstream', 5).acquireMany(3);
   * await leases.release();
   */
  async acquireMany(count: number, options: WaitOptions = {}): Promise<Leases> {
    checkNumber('count', count);
    checkOptions<WaitOptions>(options, waitChecks);
    const tracing = traceHookOf(clientInternals(lockInternals(this).client), () => false);
    if (tracing !== undefined) {
      return tracing.wait([this.path], options.timeout === 0, () => untraced(() => this.acquireMany(count, options)));
    }
    const { client } = lockInternals(this);
    const outermost = outermostAnchor(client);
    const leases = await run<NativeLease[]>(
      (bridge) => this.#native.acquireMany(bridge, count, options.timeout, options.connectTimeout, outermost),
      clientInternals(client).keepAlive,
      options.signal,
    );
    return createLeases(leases.map((lease) => leaseOf(lease, client)));
  }
}

const sharedCountNames: Names<SharedCount> = { sharedCount: true };

function checkPermits(permits: unknown): void {
  if (typeof permits === 'object' && permits !== null && 'sharedCount' in permits) {
    checkNames('permits', permits, sharedCountNames);
    checkString('sharedCount', permits.sharedCount);
  } else {
    checkType('number', 'a number, or { sharedCount: path }')('permits', permits);
  }
}

showAs(Semaphore.prototype, 'Semaphore', ({ path, permits }) => ({ path, permits }));
