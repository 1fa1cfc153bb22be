import { NotHeldError, nullIf } from './errors';
import { beginLeaseBlock, type Lease, type ReleaseOptions } from './lease';
import { checkInternalKey, internalKey } from './validate';

let create: (leases: readonly Lease[]) => Leases;

const LeaseArray = Array as unknown as new (...leases: Lease[]) => readonly Lease[];

/**
 * The leases of several locks or permits that were acquired together, in the order of acquisition. An immutable array
 * with the methods of a single lease.
 *
 * Each lease can also be released on its own. Like a single lease, these leases are released when they are garbage
 * collected.
 *
 * @example
 * const leases = await new Semaphore(client, '/locks/upstream', 5).acquireMany(3);
 * console.log(leases.length, leases[0].state); // 3 held
 */
export class Leases extends LeaseArray {
  #signal: AbortSignal | undefined;

  /** Makes `map()`, `filter()` and similar methods return plain arrays. */
  static get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  static {
    create = (leases) => new Leases(leases, internalKey);
    const { [Symbol.asyncDispose]: dispose } = this.prototype;
    // `await using` reads this property at the beginning of its block.
    const get = function (this: object): () => Promise<void> {
      if (#signal in this) this.forEach(beginLeaseBlock);
      return dispose;
    };
    Object.defineProperty(this.prototype, Symbol.asyncDispose, { get, configurable: true });
  }

  private constructor(leases: readonly Lease[], key: symbol) {
    checkInternalKey(key, 'acquire locks to get leases');
    super(...leases);
    Object.freeze(this);
  }

  /** Aborts when the first of the leases is lost, with its `LockLostError` as the reason. See `Lease.signal`. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.map((lease) => lease.signal));
    return this.#signal;
  }

  /**
   * Returns normally while all leases are held. Sends nothing.
   *
   * @throws {@link LockLostError} if a lease is lost.
   * @throws {@link NotHeldError} if a lease has been released.
   *
   * @example
   * const leases = await new MultiLock([mutex]).acquire();
   * leases.check();
   */
  check(): void {
    for (const lease of this) lease.check();
  }

  /**
   * Releases the leases that have not been released yet, in reverse order. The requests are already on their way when
   * this method returns. The promise resolves when the servers have acknowledged them, and at the latest after the
   * longest `remaining` of the leases. See `Lease.release()`.
   *
   * @throws {@link NotHeldError} if all leases had already been released.
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
   * Releases the remaining leases at the end of an `await using` block.
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
