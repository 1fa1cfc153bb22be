/** The events of a client: changes of its connection state, and lost leases. */

import { EventEmitter } from 'node:events';

import type { NativeStates } from '../addon';

import { outsideBlocks } from './blocks';
import { watch } from './bridge';
import { inContext } from './context';
import { BadArgumentError } from './errors';
import { type ReentryTracker, type Lease, leaseInternals } from './lease';
import { Leased } from './leased';
import { outsideScopes } from './scope';
import { throwUncaught } from './timers';
import type { ClientState } from './types';

/** A listener for `client.on('state', …)`. */
export type StateListener = (state: ClientState) => void;

/** A listener for `client.on('lost', …)`. */
export type LostListener = (lease: Lease) => void;

type Listener = (...event: never[]) => void;
type AnyListener = (...event: unknown[]) => void;

// `error`, `newListener` and `removeListener` are Node's own events. They must be accepted because, for example,
// `events.once()` and `events.on()` add an `error` listener.
const EVENTS = ['state', 'lost', 'error', 'newListener', 'removeListener'];

type How = 'on' | 'addListener' | 'prependListener';
type Add = (events: ClientEvents, event: string | symbol, listener: Listener) => ClientEvents;

let track: (events: ClientEvents, lease: Lease) => void;
let trackReentry: (events: ClientEvents, make: (tracker: ReentryTracker) => Lease) => Lease;
let follow: (events: ClientEvents, states: () => NativeStates) => void;

/**
 * A client as an `EventEmitter` with the events `state` and `lost`. There is no `error` event.
 *
 * Listeners keep neither the process alive (use `client.ref()`) nor the client open. An exception from a listener
 * becomes an uncaught exception, and the other listeners are still called.
 */
export abstract class ClientEvents extends EventEmitter {
  /** Whether the native addon reports state changes to this client. */
  #followsState = false;
  readonly #leases = new Leased();

  /** Starts a stream of state changes. */
  #states: (() => NativeStates) | undefined;

  static {
    follow = (events, states) => {
      events.#states = states;
    };
    track = (events, lease) => {
      events.#leases.add(lease);
      if (events.listenerCount('lost') > 0) followLoss(events, lease);
    };
    trackReentry = (events, make) => {
      const lease = make(events.#leases);
      if (events.listenerCount('lost') > 0) followLoss(events, lease);
      return lease;
    };
    const define = (name: string, add: Add): void => {
      const value = function (this: ClientEvents, event: string | symbol, listener: Listener): ClientEvents {
        return add(this, event, listener);
      };
      Object.defineProperty(this.prototype, name, { value, writable: true, configurable: true });
    };
    for (const name of ['addListener', 'prependListener'] as const) {
      define(name, (events, event, listener) => events.#add(name, event, listener));
    }
    define('prependOnceListener', (events, event, listener) => events.#addOnce('prependListener', event, listener));
  }

  /**
   * Calls `listener` on every event with this name.
   *
   * `state`: the connection state changed. The listener receives the new state; the last one is `closed`. This event
   * does not report lost locks: use `lost` for that.
   *
   * `lost`: a lease of this client was lost. The listener receives the lease; `lossReason` gives the reason, which can
   * be that the client was closed. Each lost lease is reported once; a released lease never is. See also
   * `lease.signal`.
   *
   * A listener runs in the async context of this call, but outside all `using` scopes, because the event belongs to the
   * client and not to a lease.
   *
   * @throws {@link BadArgumentError} for any other event.
   *
   * @example
   * client.on('state', (state) => console.warn(`the client is ${state}`));
   * client.on('lost', ({ path, lossReason }) => console.error(`${path} is lost: ${lossReason}`));
   */
  override on(event: 'state', listener: StateListener): this;
  override on(event: 'lost', listener: LostListener): this;
  override on(event: string, listener: Listener): this {
    return this.#add('on', event, listener);
  }

  /**
   * Calls `listener` on the next event with this name, and removes it. Node's `events.once()` and `events.on()` work
   * too.
   *
   * @throws {@link BadArgumentError} for any other event.
   *
   * @example
   * client.once('lost', (lease) => console.error(`${lease.path} is lost`));
   */
  override once(event: 'state', listener: StateListener): this;
  override once(event: 'lost', listener: LostListener): this;
  override once(event: string, listener: Listener): this {
    return this.#addOnce('on', event, listener);
  }

  /**
   * Removes a listener that `on()` or `once()` added. Does nothing for any other function.
   *
   * @example
   * const listener = (state) => console.warn(`the client is ${state}`);
   * client.on('state', listener).off('state', listener);
   * console.log(client.listenerCount('state')); // 0
   */
  override off(event: 'state', listener: StateListener): this;
  override off(event: 'lost', listener: LostListener): this;
  override off(event: string, listener: Listener): this {
    return super.off(event, listener as AnyListener);
  }

  #add(how: How, event: string | symbol, listener: Listener): this {
    checkEvent(event);
    const added = isWrapped(event, listener) ? wrapped(listener, listener) : listener;
    EventEmitter.prototype[how].call(this, event, added as AnyListener);
    this.#follow(event);
    return this;
  }

  /** Replaces Node's `once`, because Node's wrapper inside ours would hide the listener from `off()`. */
  #addOnce(how: How, event: string | symbol, listener: Listener): this {
    if (!isWrapped(event, listener)) {
      const once = how === 'prependListener' ? 'prependOnceListener' : 'once';
      EventEmitter.prototype[once].call(this, event, listener as AnyListener);
      return this;
    }
    let called = false;
    const added = wrapped(listener, (...given) => {
      if (called) return;
      called = true;
      super.off(event, added);
      listener.apply(this, given);
    });
    EventEmitter.prototype[how].call(this, event, added);
    this.#follow(event);
    return this;
  }

  #follow(event: string | symbol): void {
    if (event === 'lost') {
      for (const lease of this.#leases.open()) followLoss(this, lease);
    } else if (event === 'state' && !this.#followsState && this.#states !== undefined) {
      this.#followsState = true;
      ClientEvents.#followState(new WeakRef(this), this.#states());
    }
  }

  /** Static, with a weak reference, so that the pending native operation does not keep the client open. */
  static #followState(weak: WeakRef<ClientEvents>, states: NativeStates): void {
    watch(
      (bridge) => states.next(bridge),
      (state) => {
        const events = weak.deref();
        if (state === null || events === undefined) return;
        events.#followsState = events.listenerCount('state') > 0;
        if (!events.#followsState) return;
        ClientEvents.#followState(weak, states);
        emitToAll(events, 'state', state);
      },
    );
  }
}

function followLoss(events: ClientEvents, lease: Lease): void {
  // Use a weak reference, so that the pending native operation does not keep the client open. The lease itself refers
  // to the client.
  const weak = new WeakRef(events);
  leaseInternals(lease).onFirstLoss((lost) => {
    const listening = weak.deref();
    if (listening !== undefined) emitToAll(listening, 'lost', lost);
  });
}

/** Works like `emit`, but calls every listener even if another one throws. */
function emitToAll(events: ClientEvents, event: string, value: unknown): void {
  for (const listener of events.rawListeners(event)) call(listener.bind(events) as (value: unknown) => void, value);
}

/** Returns whether the listener must run in its own async context. Node rejects a listener that is not a function. */
function isWrapped(event: string | symbol, listener: unknown): boolean {
  return (event === 'state' || event === 'lost') && typeof listener === 'function';
}

/**
 * Returns a function that calls a listener in its async context. `off(listener)` removes it, like a wrapper of `once`.
 */
function wrapped(listener: Listener, call: Listener): AnyListener {
  // Bind the listener outside all scopes, because it is called for all leases of the client, and must not keep any of
  // them alive.
  const bound = outsideScopes(() => outsideBlocks(() => inContext(call)));
  return Object.assign(bound as AnyListener, { listener });
}

function checkEvent(event: string | symbol): void {
  if (typeof event === 'symbol' || EVENTS.includes(event)) return;
  throw new BadArgumentError(`event: must be 'state' or 'lost', but is '${event}'`);
}

export { follow as followStates, trackReentry as trackReentryLease, track as trackLease };

/**
 * Calls a listener. Its exception becomes an uncaught exception, as with any event emitter, but only after the other
 * listeners have been called.
 */
export function call<T>(listener: (event: T) => void, event: T): void {
  try {
    listener(event);
  } catch (error) {
    throwUncaught(error);
  }
}
