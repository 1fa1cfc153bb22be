/** Closes what is open when the process exits. */

import { isMainThread } from 'node:worker_threads';

import { shutdown } from '../native';

const LIMIT = 1000;

let hooked = false;

/**
 * Has every client closed on the process's exit event, in at most a second, so that its locks are free at once.
 *
 * Only the main thread needs it: it alone can exit without its environment being torn down. The end of a worker's
 * environment closes the worker's clients, and no others.
 */
export function closeClientsAtExit(): void {
  if (hooked || !isMainThread) return;
  hooked = true;
  process.once('exit', () => {
    shutdown(LIMIT);
  });
}
