import type { NativeStates } from '../native';

import { giveUp, watch } from './bridge';
import { call } from './listeners';

/** Whether a client is in touch with the ensemble. `suspended`: out of touch, but the session may still live. */
export type ClientState = 'idle' | 'connecting' | 'connected' | 'suspended' | 'closed';

export type StateListener = (state: ClientState) => void;

/** Who hears of the states of one client. Refers to nothing that keeps the client alive. */
export class StateListeners {
  readonly #listeners = new Set<StateListener>();
  #end: (() => void) | undefined;

  /** Adds a listener; `states` are made for the first. */
  add(listener: StateListener, states: () => NativeStates): void {
    this.#listeners.add(listener);
    this.#end ??= this.#follow(states());
  }

  remove(listener: StateListener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    this.#end?.();
    this.#end = undefined;
  }

  /** Tells of one state after another; returns what ends that. */
  #follow(states: NativeStates): () => void {
    const next = (): number =>
      watch(
        (bridge) => states.next(bridge),
        (state) => {
          if (state === null) return;
          id = next();
          for (const listener of [...this.#listeners]) call(listener, state as ClientState);
        },
      );
    let id = next();
    return () => {
      giveUp(id);
    };
  }
}
