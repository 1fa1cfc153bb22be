import { type NativeLease, NativeSemaphore } from '../native';

import { run } from './bridge';
import { checkInstance, checkNumber, checkOptions, checkString, checkType } from './check';
import { Client, clientInternals } from './client';
import { native } from './errors';
import { createLease } from './lease';
import { createLeases, type Leases } from './leases';
import { Lock, lockInternals, waitChecks, type WaitOptions } from './lock';

export interface SemaphoreOptions {
  /** A name for this contender, shown to operators in the data of its nodes. */
  label?: string | undefined;
}

/** Where the number of permits is to be read, if it is not fixed. */
export interface SharedCount {
  /**
   * The path of a node of Curator's `SharedCount`, below the client's chroot: four bytes, the highest first. It is
   * read at every acquire, and who waits learns of a change.
   */
  sharedCount: string;
}

/**
 * A fair semaphore: so many permits are held at the same time. Taken in the layout of Curator's
 * `InterProcessSemaphoreV2`.
 *
 * Contenders take turns, and the one whose turn it is waits for its permits. So whoever wants many is not overtaken by
 * those who want few, and no two can each keep a part of what both need.
 *
 * **Permits have no owner.** Every `acquire()` takes another permit, inside a `using` scope too, and each is a lease of
 * its own. Fencing tokens of permits that are held at the same time are not comparable.
 *
 * All contenders on a path must agree on the number of permits. Who finds that somebody there states another one, when it
 * first uses the path or when it has to wait, is refused with {@link PermitsMismatchError}.
 *
 * `contenders()` lists a node for each permit that is held or is being waited for in turn (`leases/…`), then those that
 * take turns (`locks/…`), of whom the first is the one that is waiting for its permits. `locked()` tells whether no
 * permit is free.
 */
export class Semaphore extends Lock {
  readonly #native: NativeSemaphore;
  readonly #permits: number | SharedCount;

  /**
   * @param client a connected client.
   * @param path an absolute path below the client's chroot. Missing directories are made when needed.
   * @param permits how many permits there are, or where their number is to be read.
   * @throws {BadArgumentError} for a malformed path, or a number below 1.
   */
  constructor(client: Client, path: string, permits: number | SharedCount, options: SemaphoreOptions = {}) {
    checkInstance('client', client, Client);
    checkString('path', path);
    checkPermits(permits);
    checkOptions<SemaphoreOptions>(options, { label: checkString });
    const given = typeof permits === 'number' ? permits : Object.freeze({ sharedCount: permits.sharedCount });
    const number = typeof given === 'number' ? given : given.sharedCount;
    const semaphore = native(() => new NativeSemaphore(clientInternals(client).native, path, number, options.label));
    super({ native: semaphore.asLock(), client, path, reentrant: false });
    this.#native = semaphore;
    this.#permits = given;
  }

  /** How many permits there are, or where their number is read, as given. */
  get permits(): number | Readonly<SharedCount> {
    return this.#permits;
  }

  /**
   * Acquires several permits, all or none: those with fewer wishes do not come in between. More than a shared number says
   * are waited for, since it may grow.
   *
   * @throws as `acquire()`; with a time-out of 0, {@link LockTimeoutError} if too few are free.
   * @throws {BadArgumentError} for a count below 1 or above a fixed number of permits.
   */
  async acquireMany(count: number, options: WaitOptions = {}): Promise<Leases> {
    checkNumber('count', count);
    checkOptions<WaitOptions>(options, waitChecks);
    const { client } = lockInternals(this);
    const leases = await run<NativeLease[]>(
      (bridge) => this.#native.acquireMany(bridge, count, options.timeout),
      clientInternals(client).keepAlive,
      options.signal,
    );
    return createLeases(leases.map((lease) => createLease(lease, client)));
  }
}

function checkPermits(permits: unknown): void {
  if (typeof permits === 'object' && permits !== null && 'sharedCount' in permits) {
    checkString('sharedCount', permits.sharedCount);
  } else {
    checkType('number', 'a number, or { sharedCount: path }')('permits', permits);
  }
}
