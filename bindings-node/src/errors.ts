/** The errors, and the one place where native errors become them. */

/** The stable codes, the same in every language. */
export type ErrorCode =
  | 'LOCK_TIMEOUT'
  | 'LOCK_LOST'
  | 'NOT_HELD'
  | 'UPGRADE_REFUSED'
  | 'CONNECTION_FAILED'
  | 'AUTH_FAILED'
  | 'BAD_ARGUMENT'
  | 'CLIENT_CLOSED'
  | 'FORKED'
  | 'SEQUENCE_EXHAUSTED'
  | 'PERMITS_MISMATCH'
  | 'TRANSACTION_FAILED';

/** What every error of this package is. */
export class ZkLockError extends Error {
  /** What went wrong, to act upon. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

function withCode(code: ErrorCode): new (message: string) => ZkLockError {
  return class extends ZkLockError {
    constructor(message: string) {
      super(code, message);
    }
  };
}

/** The lock was not acquired before the deadline. The contender has left the queue. */
export class LockTimeoutError extends withCode('LOCK_TIMEOUT') {}

/** The lease no longer proves anything: its session ended, its node was deleted, or its client was closed. */
export class LockLostError extends withCode('LOCK_LOST') {}

/** There is nothing to release: this lease has been released before. */
export class NotHeldError extends withCode('NOT_HELD') {}

/** A reader asked for the write lock while it reads; it would wait for itself for ever. */
export class UpgradeRefusedError extends withCode('UPGRADE_REFUSED') {}

/** No server answered in time. */
export class ConnectionFailedError extends withCode('CONNECTION_FAILED') {}

/** The server refused the credentials, or they do not permit the operation. */
export class AuthFailedError extends withCode('AUTH_FAILED') {}

/** An argument is out of its range. The message names it. No request was sent. */
export class BadArgumentError extends withCode('BAD_ARGUMENT') {}

/** The client has been closed. */
export class ClientClosedError extends withCode('CLIENT_CLOSED') {}

/** The handle was made in another process and inherited through `fork`. */
export class ForkedError extends withCode('FORKED') {}

/** The lock directory's sequence counter is close to its end. Delete the idle directory, or use another path. */
export class SequenceExhaustedError extends withCode('SEQUENCE_EXHAUSTED') {}

/** Another contender on this path uses a different number of permits. */
export class PermitsMismatchError extends withCode('PERMITS_MISMATCH') {}

/** One of a transaction's operations cannot be carried out. None was. */
export class TransactionFailedError extends withCode('TRANSACTION_FAILED') {}

const kinds = {
  LOCK_TIMEOUT: LockTimeoutError,
  LOCK_LOST: LockLostError,
  NOT_HELD: NotHeldError,
  UPGRADE_REFUSED: UpgradeRefusedError,
  CONNECTION_FAILED: ConnectionFailedError,
  AUTH_FAILED: AuthFailedError,
  BAD_ARGUMENT: BadArgumentError,
  CLIENT_CLOSED: ClientClosedError,
  FORKED: ForkedError,
  SEQUENCE_EXHAUSTED: SequenceExhaustedError,
  PERMITS_MISMATCH: PermitsMismatchError,
  TRANSACTION_FAILED: TransactionFailedError,
} as const satisfies Record<ErrorCode, new (message: string) => ZkLockError>;

// On the prototypes, as the built-in errors have it, so that it is no property of every error.
for (const kind of [ZkLockError, ...Object.values(kinds)]) {
  Object.defineProperty(kind.prototype, 'name', { value: kind.name, writable: true, configurable: true });
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(kinds, code);
}

/** The error of a code that came from the native half. */
export function errorOf(code: string, message: string): Error {
  return isCode(code) ? new kinds[code](message) : new Error(`${message} (${code})`);
}

/** By its shape: where modules are run in a realm of their own, as test runners do, the native half's is another `Error`. */
function isNativeError(error: unknown): error is { code: ErrorCode; message: string } {
  if (typeof error !== 'object' || error === null) return false;
  return 'code' in error && isCode(error.code) && 'message' in error && typeof error.message === 'string';
}

/** Calls into the native half and throws what it throws as an error of this package. */
export function native<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (isNativeError(error)) throw errorOf(error.code, error.message);
    throw error;
  }
}

/** What an attempt resolves with; `null` if it fails with this kind of error. */
export async function nullIf<T>(kind: typeof LockTimeoutError, attempt: Promise<T>): Promise<T | null> {
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof kind) return null;
    throw error;
  }
}
