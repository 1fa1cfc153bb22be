import { NotHeldError, nullIf } from './errors';
import { beginLeaseBlock, type Lease, type ReleaseOptions } from './lease';
import { checkOurs, ours } from './validate';

let create: (leases: readonly Lease[]) => Leases;

const LeaseArray = Array as unknown as new (...leases: Lease[]) => readonly Lease[];

/**
 * The leases of several locks or permits that were acquired together, in the order in which they were acquired: an
 * array that does not change, with the methods that a single lease has.
 *
 * Each of them can be released on its own. Like a single lease, those that are garbage collected are released.
 *
 * @example
 * const leases = await new Semaphore(client, '/locks/upstream', 5).acquireMany(3);
 * console.log(leases.length, leases[0].state); // 3 held
 */
export class Leases extends LeaseArray {
  #signal: AbortSignal | undefined;

  /** `map()`, `filter()` and so on return plain arrays. */
  static get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  static {
    create = (leases) => new Leases(leases, ours);
    const { [Symbol.asyncDispose]: dispose } = this.prototype;
    // `await using` reads it where its block begins.
    const get = function (this: object): () => Promise<void> {
      if (#signal in this) this.forEach(beginLeaseBlock);
      return dispose;
    };
    Object.defineProperty(this.prototype, Symbol.asyncDispose, { get, configurable: true });
  }

  private constructor(leases: readonly Lease[], key: symbol) {
    checkOurs(key, 'acquire locks to get leases');
    super(...leases);
    Object.freeze(this);
  }

  /** Aborts when the first of them is lost, with that `LockLostError` as its reason. See `Lease.signal`. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.map((lease) => lease.signal));
    return this.#signal;
  }

  /**
   * Returns while all of them are held. Sends nothing.
   *
   * @throws {@link LockLostError} once one is lost.
   * @throws {@link NotHeldError} once one has been released.
   *
   * @example
   * const leases = await new MultiLock([mutex]).acquire();
   * leases.check();
   */
  check(): void {
    for (const lease of this) lease.check();
  }

  /**
   * Releases those that have not been released yet, the last one first. The requests are on their way when this
   * returns; the promise resolves when the servers have acknowledged them, but no later than after the longest
   * `remaining` among them. See `Lease.release()`.
   *
   * @throws {@link NotHeldError} if all of them had already been released.
   *
   * @example
   * const leases = await new MultiLock([mutex]).acquire();
   * await leases.release();
   */
  async release(options: ReleaseOptions = {}): Promise<void> {
    const releases = [...this].reverse().map((lease) => nullIf(NotHeldError, lease.release(options)));
    const released = await Promise.all(releases);
    if (released.every((end) => end === null)) throw new NotHeldError('these leases have already been released');
  }

  /**
   * Releases what is left at the end of an `await using` block.
   *
   * @example
   * await using leases = await new MultiLock([mutex]).acquire();
   * console.log(leases[0].state); // held
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await nullIf(NotHeldError, this.release());
  }
}

export { create as createLeases };
