import type { Client } from './client';
import { Lock, lockOf, type MutexOptions } from './lock';

/**
 * A fair, reentrant, exclusive lock, taken in the layout of Curator's `InterProcessMutex`.
 *
 * Waiters are served in the order in which the server queued them. Two lock objects on one client and path are one
 * lock. Making one sends nothing.
 *
 * **Who may re-enter.** An `acquire()` inside a {@link Mutex.using} scope on the same client and path re-enters, and
 * so do all branches of a `Promise.all` there: they share the hold. A callback that outlives the scope is a new
 * owner. Outside scopes every `acquire()` is a new owner, who waits for the others; `within` re-enters explicitly.
 * With `reentrant: false` nobody re-enters, and an `acquire()` inside the lock's own scope waits for that to end.
 */
export class Mutex extends Lock {
  /**
   * @param client a connected client.
   * @param path an absolute path below the client's chroot. Missing directories are made when needed.
   * @throws {BadArgumentError} for a malformed path.
   */
  constructor(client: Client, path: string, options: MutexOptions = {}) {
    super(lockOf('mutex', client, path, options));
  }
}
