import { mutex, type NativeLockOptions } from '../addon';

import type { Client } from './client';
import { native } from './errors';
import { showAs } from './inspect';
import { clientFor, Lock, lockChecks, type MutexOptions } from './lock';
import { checkBoolean, checkOptions, ours } from './validate';

/**
 * A fair, reentrant, exclusive lock in the node layout of Curator's `InterProcessMutex`.
 *
 * Waiters are served in the order in which the server queued them. Two lock objects with the same client and path are
 * one lock. Creating one sends nothing.
 *
 * **Who may re-enter.** An `acquire()` inside a {@link Mutex.using} scope of the same client and path re-enters, and so
 * do all branches of a `Promise.all` there: they share the lock. A callback that outlives the scope is a new owner.
 * Outside scopes every `acquire()` is a new owner, which waits for the others; `within` re-enters explicitly. With
 * `reentrant: false` no owner re-enters, and an `acquire()` inside the lock's own scope waits until that scope ends.
 *
 * @example
 * const mutex = new Mutex(client, '/locks/report', { label: 'nightly' });
 * await mutex.using((lease) => console.log(`token ${lease.fencingToken}`));
 */
export class Mutex extends Lock {
  /**
   * @param client the client on which it is; one that is not connected yet connects at the first acquire.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @throws {@link BadArgumentError} if the path is malformed.
   */
  constructor(client: Client, path: string, options: MutexOptions = {}) {
    const on = clientFor(client, path);
    checkOptions<MutexOptions>(options, { ...lockChecks, reentrant: checkBoolean });
    const { reentrant = true } = options;
    super({ native: native(() => mutex(on, path, options as NativeLockOptions)), client, path, reentrant }, ours);
  }
}

showAs(Mutex.prototype, 'Mutex', ({ path }) => ({ path }));
