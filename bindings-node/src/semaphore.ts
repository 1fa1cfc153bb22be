import { type NativeLease, type NativeLockOptions, NativeSemaphore } from '../addon';

import { run } from './bridge';
import { type Client, clientInternals } from './client';
import { native } from './errors';
import { showAs } from './inspect';
import { createLeases, type Leases } from './leases';
import { clientFor, leaseOf, Lock, lockInternals, optionChecks, outermostAnchor, type SemaphoreOptions, waitChecks, type WaitOptions } from './lock';
import { traceHookOf, untraced } from './trace-hook';
import { checkNames, checkNumber, checkOptions, checkString, checkType, type Names, ours } from './validate';

/** Where to read the number of permits, if it is not fixed. */
export interface SharedCount {
  /**
   * The path of a node of Curator's `SharedCount`, below the client's chroot: four bytes, the most significant first.
   * Every acquire reads it, and waiters are notified of a change.
   */
  sharedCount: string;
}

/**
 * A fair semaphore, of which a number of permits can be held at the same time, in the node layout of Curator's
 * `InterProcessSemaphoreV2`.
 *
 * Contenders take turns, and the one whose turn it is waits for its permits. So smaller requests cannot overtake a
 * larger one, and no two contenders can each keep a part of what both need.
 *
 * **Permits have no owner.** Every `acquire()` takes another permit, even inside a `using` scope, and returns a lease
 * of its own. Fencing tokens of permits that are held at the same time are not comparable.
 *
 * All contenders on a path must agree on the number of permits. A contender that finds a different number there, when
 * it first uses the path or when it has to wait, is refused with {@link PermitsMismatchError}.
 *
 * `tryAcquire()`, and a time-out of 0, do not wait for a permit, but up to two seconds for another contender that is in
 * the middle of taking some.
 *
 * `contenders()` lists a node for each permit that is held or that the contender whose turn it is waits for
 * (`leases/…`), then those that take turns (`locks/…`); the first of these is the one whose turn it is. `locked()`
 * tells whether no permit is free.
 *
 * @example
 * const slots = new Semaphore(client, '/locks/upstream', 5);
 * await slots.using((lease) => console.log(`one of ${slots.permits}: ${lease.node}`));
 */
export class Semaphore extends Lock {
  readonly #native: NativeSemaphore;
  readonly #permits: number | SharedCount;

  /**
   * @param client the client on which it is; one that is not connected yet connects at the first acquire.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @param permits how many permits there are, or where to read their number.
   * @throws {@link BadArgumentError} if the path is malformed or the number is below 1.
   */
  constructor(client: Client, path: string, permits: number | SharedCount, options: SemaphoreOptions = {}) {
    const on = clientFor(client, path);
    checkPermits(permits);
    checkOptions<SemaphoreOptions>(options, optionChecks);
    const fixed = typeof permits === 'number' ? permits : undefined;
    const sharedCount = typeof permits === 'number' ? undefined : permits.sharedCount;
    const semaphore = native(() => new NativeSemaphore(on, path, fixed, sharedCount, options as NativeLockOptions));
    super({ native: semaphore.asLock(), client, path, reentrant: false }, ours);
    this.#native = semaphore;
    this.#permits = typeof permits === 'number' ? permits : Object.freeze({ sharedCount: permits.sharedCount });
  }

  /** How many permits there are, or where to read their number, as given. */
  get permits(): number | Readonly<SharedCount> {
    return this.#permits;
  }

  /**
   * Acquires several permits, all or none; smaller requests cannot overtake. A request for more permits than a shared
   * count states waits, because the count may grow.
   *
   * @throws as `acquire()`; with a time-out of 0, {@link LockTimeoutError} if too few permits are free.
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
