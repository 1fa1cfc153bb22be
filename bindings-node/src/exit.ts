/** Closes what is open when the process exits. */

import { isMainThread } from 'node:worker_threads';

import { shutdown } from '../native';

const LIMIT = 1000;

let hooked = false;

/**
 * Has every client closed on the process's exit event, in at most a second, so that its locks are free at once.
 *
 * A worker's exit is not the process's: there the clients close in the background when their handles go.
 */
export function closeClientsAtExit(): void {
  if (hooked || !isMainThread) return;
  hooked = true;
  process.once('exit', () => {
    shutdown(LIMIT);
  });
}
