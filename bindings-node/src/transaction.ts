import type { NativeTransaction } from '../native';

import { run, untilDone } from './bridge';
import { bytesOf, checkNumber, checkString } from './check';
import { native } from './errors';

let create: (transaction: NativeTransaction) => Transaction;

/**
 * Writes to ZooKeeper that are carried out together, and only if the lock's node stands at that moment. So they need no
 * fencing token: a holder that was paused, and whose lock went to somebody else, changes nothing.
 *
 * Made by `lease.transaction()`. Paths are absolute, below the client's chroot; text is written as UTF-8. Nodes are created
 * persistent, with the client's access control list. Every method but `commit()` returns the transaction.
 *
 * @example
 * await lease.transaction().setData('/report/state', 'done', 3).delete('/report/draft').commit();
 */
export class Transaction {
  readonly #native: NativeTransaction;

  static {
    create = (transaction) => new Transaction(transaction);
  }

  private constructor(transaction: NativeTransaction) {
    this.#native = transaction;
  }

  /** Creates a node. */
  create(path: string, data: string | Uint8Array = ''): this {
    checkString('path', path);
    const bytes = bytesOf('data', data);
    return this.#with(() => {
      this.#native.create(path, bytes);
    });
  }

  /** Writes a node's data, if it is of this version; of any, without. */
  setData(path: string, data: string | Uint8Array, version?: number): this {
    checkString('path', path);
    if (version !== undefined) checkNumber('version', version);
    const bytes = bytesOf('data', data);
    return this.#with(() => {
      this.#native.setData(path, bytes, version);
    });
  }

  /** Deletes a node, if it is of this version; of any, without. */
  delete(path: string, version?: number): this {
    checkString('path', path);
    if (version !== undefined) checkNumber('version', version);
    return this.#with(() => {
      this.#native.delete(path, version);
    });
  }

  /** Has the whole transaction fail unless a node is of this version. */
  check(path: string, version: number): this {
    checkString('path', path);
    checkNumber('version', version);
    return this.#with(() => {
      this.#native.check(path, version);
    });
  }

  #with(add: () => void): this {
    native(add);
    return this;
  }

  /**
   * Carries all out, or none. Waits for the answer for up to the client's connect time-out.
   *
   * @throws {LockLostError} if the lock is not held any more: nothing was written.
   * @throws {TransactionFailedError} if one of the operations cannot be carried out, as the message says: nothing was
   *   written.
   * @throws {ConnectionFailedError} if no answer came: nobody knows whether it was written.
   * @throws {NotHeldError} after a release.
   * @throws {BadArgumentError} for a malformed path, or the second time.
   */
  async commit(): Promise<void> {
    await run<undefined>((bridge) => this.#native.commit(bridge), untilDone);
  }
}
export { create as createTransaction };
