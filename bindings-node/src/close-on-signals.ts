/** Closes clients when the process exits, or when a signal asks it to end. */

import { constants } from 'node:os';
import { isMainThread } from 'node:worker_threads';

import { shutdown } from '../addon';

import { BadArgumentError } from './errors';
import { checkIterable } from './validate';

/** How long clients have at the exit of the process, in ms. */
const LIMIT = 1000;

let hooked = false;

/** Closes all clients of the process, within a second, while no JavaScript runs. None can be used afterwards. */
function closeClients(): void {
  shutdown(LIMIT);
}

/**
 * Has all clients closed on the process's exit event, within a second, so that their locks are free at once.
 *
 * Only the main thread needs this: no other thread can exit without tearing down its environment. The end of a worker's
 * environment closes the clients of that worker, and no others.
 */
export function closeClientsAtExit(): void {
  if (hooked || !isMainThread) return;
  hooked = true;
  process.once('exit', closeClients);
}

/** A signal that asks a process to end, and does end it where nothing handles it. */
export type EndingSignal = 'SIGBREAK' | 'SIGHUP' | 'SIGINT' | 'SIGQUIT' | 'SIGTERM';

const KNOWN: readonly EndingSignal[] = ['SIGBREAK', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'];

interface Closable {
  close(): Promise<void>;
}

/** One call of `closeOnSignals()`. */
interface Entry {
  readonly client: Closable;
}

/** What all clients share that are to be closed on a signal. It has a listener while there are any. */
class Handler {
  readonly #entries = new Set<Entry>();
  readonly #signal: EndingSignal;

  constructor(signal: EndingSignal) {
    this.#signal = signal;
  }

  add(entry: Entry): void {
    // First, to find the program's own handlers there, even those that are removed when they are called.
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
      // The program has handlers of its own, which decide how it ends. It may go on, and is told what it lost.
      for (const { client } of this.#entries) client.close().catch(() => undefined);
      return;
    }
    // Before anything else runs: what waits for a lock or holds one would be told of the end, and what nobody catches
    // would end the process in its own way. Nor does a signal that comes twice, from the terminal and from npm, get here.
    this.remove(() => true);
    closeClients();
    process.kill(process.pid, this.#signal);
    // Node ends in the line above. Deno ends in a thread of its own that receives the signal, which takes a moment.
    // The first process of a container has no default action, and must not go on with its clients closed.
    if (process.pid !== 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    process.exit(128 + constants.signals[this.#signal]);
  };
}

const handlers = new Map<EndingSignal, Handler>();

/** Has a client closed on these signals; returns what undoes it. */
export function closeOnSignals(client: Closable, signals: Iterable<EndingSignal>): (() => void) & Disposable {
  checkIterable('signals', signals);
  const wanted = new Set(signals);
  for (const signal of wanted) {
    if (!KNOWN.includes(signal)) {
      throw new BadArgumentError(`signals: ${JSON.stringify(signal)} is none of ${KNOWN.join(', ')}`);
    }
  }
  if (!isMainThread) {
    throw new BadArgumentError('closeOnSignals: signals reach the main thread only; have it end this worker');
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

/** Forgets a client that is closed. */
export function forgetSignals(client: Closable): void {
  for (const handler of handlers.values()) handler.remove((entry) => entry.client === client);
}
