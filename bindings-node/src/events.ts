/** What a client tells of. */

import { EventEmitter } from 'node:events';

import type { NativeStates } from '../addon';

import { outsideBlocks } from './blocks';
import { watch } from './bridge';
import { inContext } from './context';
import { BadArgumentError } from './errors';
import { type Brief, type Lease, leaseInternals } from './lease';
import { Leased } from './leased';
import { outsideScopes } from './scope';
import { throwUncaught } from './timers';
import type { ClientState } from './types';

/** What `client.on('state', …)` calls. */
export type StateListener = (state: ClientState) => void;

/** What `client.on('lost', …)` calls. */
export type LostListener = (lease: Lease) => void;

type Listener = (...event: never[]) => void;
type AnyListener = (...event: unknown[]) => void;

// The others are Node's own: `events.once()` and `events.on()` listen to `error`, which is never emitted here.
const EVENTS = ['state', 'lost', 'error', 'newListener', 'removeListener'];

type How = 'on' | 'addListener' | 'prependListener';
type Add = (events: ClientEvents, event: string | symbol, listener: Listener) => ClientEvents;

let track: (events: ClientEvents, lease: Lease) => void;
let trackBriefly: (events: ClientEvents, make: (brief: Brief) => Lease) => Lease;
let follow: (events: ClientEvents, states: () => NativeStates) => void;

/**
 * A client as an `EventEmitter`, with the events `state` and `lost`. There is no `error` event.
 *
 * Listening keeps neither the process alive (`client.ref()` does) nor the client open. What a listener throws is
 * an uncaught exception, and the other listeners are still called.
 */
export abstract class ClientEvents extends EventEmitter {
  /** Whether the native half reports changes of the state to it. */
  #followsState = false;
  readonly #leases = new Leased();

  /** The changes of the state from now on. */
  #states: (() => NativeStates) | undefined;

  static {
    follow = (events, states) => {
      events.#states = states;
    };
    track = (events, lease) => {
      events.#leases.add(lease);
      if (events.listenerCount('lost') > 0) followLoss(events, lease);
    };
    trackBriefly = (events, make) => {
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
   * Calls `listener` on every event of this name.
   *
   * `state`: the state of the connection changed, to the one that is passed; the last one is `closed`. To learn of the
   * loss of a lock, use `lost`.
   *
   * `lost`: a lease of this client was lost, and is passed; `lossReason` says why, which may be that the client was
   * closed. Each lease is told of once; never one that was released. See also `lease.signal`.
   *
   * A listener runs in the async context of this call, but as nobody's owner: the event is the client's, not a lease's.
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
   * Calls `listener` on the next event of this name, and never again. `events.once()` and `events.on()` of Node work as
   * well.
   *
   * @throws {@link BadArgumentError} as `on()`.
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

  /** As Node does it, whose own wrapper would hide the listener from `off()` inside of ours. */
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

  /** Static, and with a weak reference: what waits for the native half must not keep the client open. */
  static #followState(weak: WeakRef<ClientEvents>, states: NativeStates): void {
    watch(
      (bridge) => states.next(bridge),
      (state) => {
        const events = weak.deref();
        if (state === null || events === undefined) return;
        events.#followsState = events.listenerCount('state') > 0;
        if (!events.#followsState) return;
        ClientEvents.#followState(weak, states);
        tell(events, 'state', state);
      },
    );
  }
}

function followLoss(events: ClientEvents, lease: Lease): void {
  // Weak, because what waits for the native half must not keep the client open. The lease keeps it.
  const weak = new WeakRef(events);
  leaseInternals(lease).tellLoss((lost) => {
    const listening = weak.deref();
    if (listening !== undefined) tell(listening, 'lost', lost);
  });
}

/** As `emit` does, but each listener is called, whatever the others throw. */
function tell(events: ClientEvents, event: string, value: unknown): void {
  for (const listener of events.rawListeners(event)) call(listener.bind(events) as (value: unknown) => void, value);
}

/** Whether a listener of an event is to run in its own async context. What is no function, Node refuses. */
function isWrapped(event: string | symbol, listener: unknown): boolean {
  return (event === 'state' || event === 'lost') && typeof listener === 'function';
}

/** The function that calls a listener in its async context. It is removed by the listener, as a wrapper of `once` is. */
function wrapped(listener: Listener, call: Listener): AnyListener {
  // Outside of scopes: it is called for all leases of the client, and must keep none.
  const bound = outsideScopes(() => outsideBlocks(() => inContext(call)));
  return Object.assign(bound as AnyListener, { listener });
}

function checkEvent(event: string | symbol): void {
  if (typeof event === 'symbol' || EVENTS.includes(event)) return;
  throw new BadArgumentError(`event: must be 'state' or 'lost', but is '${event}'`);
}

export { follow as followStates, trackBriefly as trackBriefLease, track as trackLease };

/**
 * Calls a listener. What it throws is an uncaught exception, as with any event emitter, but the other listeners come
 * first.
 */
export function call<T>(listener: (event: T) => void, event: T): void {
  try {
    listener(event);
  } catch (error) {
    throwUncaught(error);
  }
}
