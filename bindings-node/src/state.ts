import type { NativeStates } from '../native';

import { giveUp, watch } from './bridge';
import { call } from './listeners';

/** Whether a client is connected to the ensemble. `suspended`: disconnected, but its session may still be alive. */
export type ClientState = 'idle' | 'connecting' | 'connected' | 'suspended' | 'closed';

/** What `client.on('state', …)` calls. */
export type StateListener = (state: ClientState) => void;

/** The listeners to the state of one client. Refers to nothing that keeps the client alive. */
export class StateListeners {
  readonly #listeners = new Set<StateListener>();
  #end: (() => void) | undefined;

  /** Adds a listener; calls `states` for the first one. */
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

  /** Calls the listeners with one state after another, until the function that this returns is called. */
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
    return () => giveUp(id);
  }
}
