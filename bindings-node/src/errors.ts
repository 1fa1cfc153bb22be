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

/** The lock was not acquired before the deadline. The contender has left the queue. */
export class LockTimeoutError extends ZkLockError {
  constructor(message: string) {
    super('LOCK_TIMEOUT', message);
  }
}

/** The lease no longer proves anything: its session ended, its node was deleted, or its client was closed. */
export class LockLostError extends ZkLockError {
  constructor(message: string) {
    super('LOCK_LOST', message);
  }
}

/** There is nothing to release: this lease has been released before. */
export class NotHeldError extends ZkLockError {
  constructor(message: string) {
    super('NOT_HELD', message);
  }
}

/** A reader asked for the write lock while it reads; it would wait for itself for ever. */
export class UpgradeRefusedError extends ZkLockError {
  constructor(message: string) {
    super('UPGRADE_REFUSED', message);
  }
}

/** No server answered in time. */
export class ConnectionFailedError extends ZkLockError {
  constructor(message: string) {
    super('CONNECTION_FAILED', message);
  }
}

/** The server refused the credentials, or they do not permit the operation. */
export class AuthFailedError extends ZkLockError {
  constructor(message: string) {
    super('AUTH_FAILED', message);
  }
}

/** An argument is out of its range. The message names it. No request was sent. */
export class BadArgumentError extends ZkLockError {
  constructor(message: string) {
    super('BAD_ARGUMENT', message);
  }
}

/** The client has been closed. */
export class ClientClosedError extends ZkLockError {
  constructor(message: string) {
    super('CLIENT_CLOSED', message);
  }
}

/** The handle was made in another process and inherited through `fork`. */
export class ForkedError extends ZkLockError {
  constructor(message: string) {
    super('FORKED', message);
  }
}

/** The lock directory's sequence counter is close to its end. Delete the idle directory, or use another path. */
export class SequenceExhaustedError extends ZkLockError {
  constructor(message: string) {
    super('SEQUENCE_EXHAUSTED', message);
  }
}

/** Another contender on this path uses a different number of permits. */
export class PermitsMismatchError extends ZkLockError {
  constructor(message: string) {
    super('PERMITS_MISMATCH', message);
  }
}

/** One of a transaction's operations cannot be carried out. None was. */
export class TransactionFailedError extends ZkLockError {
  constructor(message: string) {
    super('TRANSACTION_FAILED', message);
  }
}

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

/** What came of a try: `null` if its time ran out. */
export async function nullIfTimedOut<T>(attempt: Promise<T>): Promise<T | null> {
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof LockTimeoutError) return null;
    throw error;
  }
}
