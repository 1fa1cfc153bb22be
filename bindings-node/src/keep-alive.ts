/** What keeps the process alive. */

import { clearInterval, setInterval } from './timers';

// The longest time that Node's timers accept. A timer, because it is the one handle that needs no file descriptor.
const LONGEST = 2 ** 31 - 1;

/** Is notified of everything that begins and ends. */
export interface Pending {
  begin(): void;
  end(): void;
}

/** Tells all of them: the process is kept alive as long as one of them wants that. */
export function together(all: Iterable<Pending>): Pending {
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
 * Keeps the event loop running while something is pending.
 *
 * The native half never does that: its only handle in the event loop is weak.
 */
export class KeepAlive implements Pending {
  #pending = 0;
  #always: boolean | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Something began. */
  begin(): void {
    this.#pending += 1;
    this.#update();
  }

  /** Something ended. */
  end(): void {
    this.#pending -= 1;
    this.#update();
  }

  /** Whether to keep the process alive, whatever is pending; `undefined`: while something is pending. */
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
