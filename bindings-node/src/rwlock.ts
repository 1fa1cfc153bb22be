import { checkObject } from './check';
import type { Client } from './client';
import { Lock, lockOf, type LockOptions } from './lock';

/**
 * A fair read/write lock, taken in the layout of Curator's `InterProcessReadWriteLock`.
 *
 * A run of readers at the head of the queue holds together; a writer holds alone; a reader that comes after a waiting
 * writer waits behind it. Each half is reentrant, and has the owners that a `Mutex` has: a scope of either half
 * counts for both.
 *
 * - **Downgrade.** The owner of the write lock may take the read lock too, and keeps that when it releases the write
 *   lock, with nobody in between; it keeps the writer's fencing token.
 * - **No upgrade.** An owner of only the read lock that asks for the write lock would wait for itself, and is refused
 *   with `UpgradeRefusedError` at once.
 *
 * Fencing tokens of readers that hold together are not comparable.
 */
export class ReadWriteLock {
  /** Held together with other readers. */
  readonly readLock: Lock;
  /** Held alone. */
  readonly writeLock: Lock;

  /**
   * @param client a connected client.
   * @param path an absolute path below the client's chroot. Missing directories are made when needed.
   * @throws {BadArgumentError} for a malformed path.
   */
  constructor(client: Client, path: string, options: LockOptions = {}) {
    checkObject('options', options);
    // Not `reentrant`: without it neither half could know that it waits for the other.
    const { label, naming } = options;
    this.readLock = new Lock(lockOf('read', client, path, { label, naming }));
    this.writeLock = new Lock(lockOf('write', client, path, { label, naming }));
  }

  /** The lock path, as given. */
  get path(): string {
    return this.readLock.path;
  }
}
