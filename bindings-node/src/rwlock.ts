import { type NativeLockOptions, readWriteLock } from '../addon';

import type { Client } from './client';
import { native } from './errors';
import { showAs } from './inspect';
import { clientFor, Lock, lockChecks, type LockOptions } from './lock';
import { checkOptions, internalKey } from './validate';

/**
 * A fair read/write lock in the node layout of Curator's `InterProcessReadWriteLock`.
 *
 * The readers at the head of the queue hold the lock together, and a writer holds it alone. A reader that arrives after
 * a waiting writer waits behind it. Both halves are reentrant, with the same rules for owners as a `Mutex`. A scope of
 * either half counts for both halves.
 *
 * - **Downgrade.** The owner of the write lock may also take the read lock, and keeps the read lock when it releases
 *   the write lock. No other contender gets the lock in between, and the lease keeps the writer's fencing token.
 * - **No upgrade.** An owner that holds only the read lock and requests the write lock would wait for itself. The
 *   request is refused immediately, with `UpgradeRefusedError`.
 *
 * Do not compare the fencing tokens of readers that hold the lock together.
 *
 * @example
 * const { readLock, writeLock } = new ReadWriteLock(client, '/locks/catalogue');
 * const reading = await writeLock.using(() => readLock.acquire());
 * console.log(reading.state); // held
 */
export class ReadWriteLock {
  /** The read lock, which any number of readers can hold at the same time. */
  readonly readLock: Lock;
  /** The write lock, which one writer holds alone. */
  readonly writeLock: Lock;

  /**
   * @param client the client of the lock. If it is not connected yet, it connects at the first acquire.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @throws {@link BadArgumentError} if the path is malformed.
   */
  constructor(client: Client, path: string, options: LockOptions = {}) {
    const on = clientFor(client, path);
    checkOptions<LockOptions>(options, lockChecks);
    const [read, write] = native(() => readWriteLock(on, path, options as NativeLockOptions));
    this.readLock = new Lock({ native: read, client, path, reentrant: true }, internalKey);
    this.writeLock = new Lock({ native: write, client, path, reentrant: true }, internalKey);
  }

  /** The lock path, as given. */
  get path(): string {
    return this.readLock.path;
  }
}

showAs(ReadWriteLock.prototype, 'ReadWriteLock', ({ path }) => ({ path }));
