/** Leases that are known, and not kept. */

import { type Brief, isOpenLease, type Lease } from './lease';

/** Leases that whoever has this does not keep. */
export class Leased implements Brief {
  #all: WeakRef<Lease>[] = [];
  #pruneAt = 64;
  /** Those of bodies that run, or are about to: a reference that is strong costs less, and nothing lasts. */
  readonly #brief = new Set<Lease>();

  begins(lease: Lease): void {
    this.#brief.add(lease);
  }

  over(lease: Lease): void {
    this.#brief.delete(lease);
  }

  lasts(lease: Lease): void {
    this.#brief.delete(lease);
    this.add(lease);
  }

  add(lease: Lease): void {
    // Ended ones are removed when there are twice as many, so that this costs nothing on average.
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
    return [...leases, ...this.#brief].filter(isOpenLease);
  }
}
