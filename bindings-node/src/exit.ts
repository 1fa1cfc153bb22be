/** Closes what is open when the process exits. */

import { isMainThread } from 'node:worker_threads';

import { shutdown } from '../native';

const LIMIT = 1000;

let hooked = false;

/** Closes all clients of the process, within a second, while no JavaScript runs. None can be used afterwards. */
export function closeClients(): void {
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
