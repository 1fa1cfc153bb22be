import { checkOurs, ours } from './check';
import { NotHeldError, nullIf } from './errors';
import type { Lease, ReleaseOptions } from './lease';

let create: (leases: readonly Lease[]) => Leases;

const LeaseArray = Array as unknown as new (...leases: Lease[]) => readonly Lease[];

/**
 * The leases of one acquire of several locks or permits, in the order in which they were taken: an array that does not
 * change, with what a single lease has to end it.
 *
 * Each may be released on its own. Those that are garbage collected are released, as a single lease is.
 */
export class Leases extends LeaseArray {
  #signal: AbortSignal | undefined;

  /** What `map()`, `filter()` and so on make are plain arrays. */
  static get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  static {
    create = (leases) => new Leases(leases, ours);
  }

  private constructor(leases: readonly Lease[], key: symbol) {
    checkOurs(key, 'leases are made by acquiring locks');
    super(...leases);
    Object.freeze(this);
  }

  /** Aborts when the first of the leases is lost, with that `LockLostError` as its reason. See `Lease.signal`. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.map((lease) => lease.signal));
    return this.#signal;
  }

  /**
   * Returns while all locks are held. Sends nothing.
   *
   * @throws {LockLostError} once one is lost.
   * @throws {NotHeldError} after the release of one.
   */
  check(): void {
    for (const lease of this) lease.check();
  }

  /**
   * Releases those that were not released yet, the last one first. All are on their way when this returns; the promise
   * resolves when the server has acknowledged them. See `Lease.release()`.
   *
   * @throws {NotHeldError} if all were released before.
   */
  async release(options: ReleaseOptions = {}): Promise<void> {
    const releases = [...this].reverse().map((lease) => nullIf(NotHeldError, lease.release(options)));
    const released = await Promise.all(releases);
    if (released.every((end) => end === null)) throw new NotHeldError('these leases have been released already');
  }

  /** Releases what is left at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await nullIf(NotHeldError, this.release());
  }
}

export { create as createLeases };
