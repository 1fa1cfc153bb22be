import type { NativeTransaction } from '../addon';

import { run, untilDone } from './bridge';
import { native } from './errors';
import { bytesOf, checkNumber, checkString } from './validate';

let create: (transaction: NativeTransaction) => Transaction;

/**
 * ZooKeeper writes that the servers apply together, and only if the lock's node exists at that moment. They need no
 * fencing token: if a holder was paused and another client acquired the lock meanwhile, the transaction of the first
 * holder changes nothing.
 *
 * Create a transaction with `lease.transaction()`. Paths are absolute, below the client's chroot. Text is written as
 * UTF-8. New nodes are persistent and have the client's access control list. Every method except `commit()` returns the
 * transaction.
 *
 * @example
 * await lease.transaction().create('/report', 'draft').create('/report/state', 'new').commit();
 * await lease.transaction().setData('/report', 'final', 0).delete('/report/state').commit();
 */
export class Transaction {
  readonly #native: NativeTransaction;

  static {
    create = (transaction) => new Transaction(transaction);
  }

  private constructor(transaction: NativeTransaction) {
    this.#native = transaction;
  }

  /**
   * Creates a node.
   *
   * @example
   * await lease.transaction().create('/report', 'draft').commit();
   */
  create(path: string, data: string | Uint8Array = ''): this {
    checkString('path', path);
    const bytes = bytesOf('data', data);
    return this.#add((transaction) => transaction.create(path, bytes));
  }

  /**
   * Sets the data of a node if its version matches. Without a version, any version matches.
   *
   * @example
   * await lease.transaction().create('/report').setData('/report', new Uint8Array([1, 2])).commit();
   */
  setData(path: string, data: string | Uint8Array, version?: number): this {
    checkString('path', path);
    if (version !== undefined) checkNumber('version', version);
    const bytes = bytesOf('data', data);
    return this.#add((transaction) => transaction.setData(path, bytes, version));
  }

  /**
   * Deletes a node if its version matches. Without a version, any version matches.
   *
   * @example
   * await lease.transaction().create('/draft').delete('/draft', 0).commit();
   */
  delete(path: string, version?: number): this {
    checkString('path', path);
    if (version !== undefined) checkNumber('version', version);
    return this.#add((transaction) => transaction.delete(path, version));
  }

  /**
   * Makes the whole transaction fail unless the version of a node matches.
   *
   * @example
   * await lease.transaction().create('/report').check('/report', 0).commit();
   */
  check(path: string, version: number): this {
    checkString('path', path);
    checkNumber('version', version);
    return this.#add((transaction) => transaction.check(path, version));
  }

  #add(add: (transaction: NativeTransaction) => void): this {
    native(() => add(this.#native));
    return this;
  }

  /**
   * Applies all operations, or none. Waits for the reply for up to the client's connect timeout.
   *
   * @throws {@link LockLostError} if the lock is no longer held. Nothing was written.
   * @throws {@link TransactionFailedError} if one of the operations cannot be applied. Its `index` is the operation's.
   *   Nothing was written.
   * @throws {@link ConnectionFailedError} if no reply arrived: the operations may or may not have been applied.
   * @throws {@link NotHeldError} after a release.
   * @throws {@link BadArgumentError} if a path is malformed, or if `commit()` was called before.
   *
   * @example
   * await lease.transaction().create('/report', 'done').commit();
   */
  async commit(): Promise<void> {
    await run<undefined>((bridge) => this.#native.commit(bridge), untilDone);
  }
}
export { create as createTransaction };
