/** Keeps the process alive while operations are pending. */

import { clearTimeout, setInterval } from './timers';

// The longest delay that Node's timers accept. A timer is used because it keeps the process alive without a file
// descriptor.
const LONGEST = 2 ** 31 - 1;

/**
 * The timer of this thread, which keeps the process alive while an operation requires it. There is one for all
 * operations, because creating a timer takes longer than changing whether this one keeps the process alive.
 *
 * It is created when this module is loaded, not by the first operation. Otherwise it would keep the async context of
 * that operation, and with it a scope that the program has abandoned. It calls a function of Node, so that it does not
 * keep this module, which some test runners load again for each file.
 */
const timer = setInterval(clearTimeout, LONGEST, undefined).unref();

/** The number of `KeepAlive` objects that require the process to stay alive. */
let required = 0;

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
  #requires = false;

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
    const requires = this.#always ?? this.#pending > 0;
    if (requires === this.#requires) return;
    this.#requires = requires;
    required += requires ? 1 : -1;
    if (required === 0) timer.unref();
    else if (requires && required === 1) timer.ref();
  }
}
