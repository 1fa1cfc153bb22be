/** Tracks open leases without keeping them referenced. */

import { type ReentryTracker, isOpenLease, type Lease } from './lease';

/** A collection of leases with weak references, so that the program can drop the leases. */
export class Leased implements ReentryTracker {
  #all: WeakRef<Lease>[] = [];
  #pruneAt = 64;
  /**
   * Leases of bodies that are running or about to run. These references are strong, because they cost less than weak
   * ones, and they exist only for a short time.
   */
  readonly #running = new Set<Lease>();

  begins(lease: Lease): void {
    this.#running.add(lease);
  }

  over(lease: Lease): void {
    this.#running.delete(lease);
  }

  isAsync(lease: Lease): void {
    this.#running.delete(lease);
    this.add(lease);
  }

  add(lease: Lease): void {
    // Ended leases are removed when the list has doubled, so that the amortized cost is constant.
    if (this.#all.length >= this.#pruneAt) {
      this.#all = this.#all.filter((weak) => {
        const known = weak.deref();
        return known !== undefined && isOpenLease(known);
      });
      this.#pruneAt = 2 * this.#all.length + 64;
    }
    this.#all.push(new WeakRef(lease));
  }

  open(): Lease[] {
    const leases = this.#all.flatMap((weak) => weak.deref() ?? []);
    return [...leases, ...this.#running].filter(isOpenLease);
  }
}
