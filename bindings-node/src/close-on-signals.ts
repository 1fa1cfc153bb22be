/** Closes clients when the process exits, or when a signal asks it to end. */

import { constants } from 'node:os';
import { isMainThread } from 'node:worker_threads';

import { shutdown } from '../addon';

import { BadArgumentError } from './errors';
import { checkIterable } from './validate';

/** Time limit for closing the clients when the process exits, in ms. */
const LIMIT = 1000;

let hooked = false;

/**
 * Closes all clients of the process, within a second. No JavaScript runs meanwhile, and no client can be used
 * afterwards.
 */
function closeClients(): void {
  shutdown(LIMIT);
}

/**
 * Closes all clients within a second on the process's `exit` event, so that their locks are free immediately.
 *
 * Only the main thread needs this: no other thread can exit without tearing down its environment, and the end of a
 * worker's environment closes the clients of that worker only.
 */
export function closeClientsAtExit(): void {
  if (hooked || !isMainThread) return;
  hooked = true;
  process.once('exit', closeClients);
}

/** A signal that asks a process to end, and ends it unless a handler is installed. */
export type EndingSignal = 'SIGBREAK' | 'SIGHUP' | 'SIGINT' | 'SIGQUIT' | 'SIGTERM';

const KNOWN: readonly EndingSignal[] = ['SIGBREAK', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'];

interface Closable {
  close(): Promise<void>;
}

/** One call of `closeOnSignals()`. */
interface Entry {
  readonly client: Closable;
}

/** The clients to close on one signal. Its listener is installed while there is at least one client. */
class Handler {
  readonly #entries = new Set<Entry>();
  readonly #signal: EndingSignal;

  constructor(signal: EndingSignal) {
    this.#signal = signal;
  }

  add(entry: Entry): void {
    // This listener must run first, because it counts the program's own handlers. Node removes a handler that was added
    // with `once` before it calls that handler.
    if (this.#entries.size === 0) process.prependListener(this.#signal, this.#listener);
    this.#entries.add(entry);
  }

  remove(ended: (entry: Entry) => boolean): void {
    for (const entry of this.#entries) {
      if (ended(entry)) this.#entries.delete(entry);
    }
    if (this.#entries.size === 0) process.removeListener(this.#signal, this.#listener);
  }

  readonly #listener = (): void => {
    if (process.listenerCount(this.#signal) > 1) {
      // The program's own handlers decide whether the process ends. If the process continues, its leases must report
      // that they are lost.
      for (const { client } of this.#entries) client.close().catch(() => undefined);
      return;
    }
    // Close the clients before any other code runs. Otherwise pending acquires would reject, and an uncaught rejection
    // would end the process with a different status. The entries are removed first, because the signal can arrive
    // twice, from the terminal and from npm.
    this.remove(() => true);
    closeClients();
    process.kill(process.pid, this.#signal);
    // Node exits in the line above. Deno exits on a separate thread, which takes a moment. The first process of a
    // container has no default action for signals, and must not continue with closed clients.
    if (process.pid !== 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    process.exit(128 + constants.signals[this.#signal]);
  };
}

const handlers = new Map<EndingSignal, Handler>();

/** Closes a client on these signals. Returns a function that undoes this. */
export function closeOnSignals(client: Closable, signals: Iterable<EndingSignal>): (() => void) & Disposable {
  checkIterable('signals', signals);
  const wanted = new Set(signals);
  for (const signal of wanted) {
    if (!KNOWN.includes(signal)) {
      throw new BadArgumentError(`signals: ${JSON.stringify(signal)} is not one of ${KNOWN.join(', ')}`);
    }
  }
  if (!isMainThread) {
    throw new BadArgumentError('closeOnSignals: signals reach only the main thread; terminate this worker from there');
  }
  const entry = { client };
  for (const signal of wanted) {
    const handler = handlers.get(signal) ?? new Handler(signal);
    handlers.set(signal, handler);
    handler.add(entry);
  }
  const undo = (): void => {
    for (const signal of wanted) handlers.get(signal)?.remove((one) => one === entry);
  };
  return Object.assign(undo, { [Symbol.dispose]: undo });
}

/** Removes a closed client from all signal handlers. */
export function forgetSignals(client: Closable): void {
  for (const handler of handlers.values()) handler.remove((entry) => entry.client === client);
}
