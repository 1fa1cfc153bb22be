/** Keeps the process alive while operations are pending. */

import { clearInterval, setInterval } from './timers';

// The longest delay that Node's timers accept. A timer is used because it keeps the process alive without a file
// descriptor.
const LONGEST = 2 ** 31 - 1;

/** Counts pending operations: it is called when an operation begins and when it ends. */
export interface Pending {
  begin(): void;
  end(): void;
}

/** Combines several counters, so that the process stays alive while at least one of them requires it. */
export function combinePending(all: Iterable<Pending>): Pending {
  return {
    begin() {
      for (const one of all) one.begin();
    },
    end() {
      for (const one of all) one.end();
    },
  };
}

/**
 * Keeps the event loop running while at least one operation is pending.
 *
 * The native addon cannot do this, because its only handle in the event loop is weak.
 */
export class KeepAlive implements Pending {
  #pending = 0;
  #always: boolean | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Records that an operation began. */
  begin(): void {
    this.#pending += 1;
    this.#update();
  }

  /** Records that an operation ended. */
  end(): void {
    this.#pending -= 1;
    this.#update();
  }

  /** Whether to keep the process alive regardless of pending operations. With `undefined`, the counter decides. */
  set always(always: boolean | undefined) {
    this.#always = always;
    this.#update();
  }

  #update(): void {
    const wanted = this.#always ?? this.#pending > 0;
    if (wanted) {
      this.#timer ??= setInterval(() => undefined, LONGEST);
    } else {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }
}
