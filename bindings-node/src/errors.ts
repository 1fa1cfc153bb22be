/** Defines the error classes, and converts native errors to them. */

import type { NativeDetails, NativeServerReport } from '../addon';

import { type Contender, contenderOf } from './contender';
import type { LossReason } from './types';

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

/**
 * The base class of all errors of this package.
 *
 * @example
 * await mutex.using({ timeout: 1000 }, (lease) => console.log(lease.node)).catch((error) => {
 *   if (!(error instanceof ZkLockError)) throw error;
 *   console.error(error.code, error.message);
 * });
 */
export class ZkLockError extends Error {
  /** The error code: stable, and the same in every language. */
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

/**
 * The problem with a server that could not be used:
 *
 * - `not serving`: the server has no quorum.
 * - `tls`: an encryption problem without a more specific name in this list.
 * - `answered`: the server replied at first, but not in the end.
 */
export type ServerProblem =
  | 'unknown host'
  | 'refused'
  | 'unreachable'
  | 'silent'
  | 'closed'
  | 'not serving'
  | 'read-only'
  | 'not zookeeper'
  | 'certificate name'
  | 'certificate expired'
  | 'certificate authority'
  | 'tls'
  | 'answered'
  | 'not tried';

/** The result of the last attempt to use one server. */
export interface ServerReport {
  /** The server, as `host:port`. */
  readonly server: string;
  /** The kind of problem, for programs. */
  readonly problem: ServerProblem;
  /** The problem in words, for people: the message of the operating system, TLS or the server. */
  readonly detail: string;
}

/**
 * The reason for a timeout:
 *
 * - `taken`: during this attempt, a server's reply showed a blocking contender, or this client itself holds the lock.
 * - `unreachable`: no server replied since the attempt began.
 * - `full`: as many contenders waited as `maxWaiters` permits, so the acquire was refused immediately.
 * - `unknown`: any other reason, such as a connection that was lost during the attempt.
 */
export type TimeoutReason = 'taken' | 'unreachable' | 'unknown' | 'full';

/** Two owners that waited for each other. Immutable. */
export interface Deadlock {
  /** Path of the lock that the caller held and the other owner waited for. */
  readonly held: string;
  /** Path of the lock that the caller waited for. */
  readonly waited: string;
  /** The other owner's contender in the queue of `waited`, ahead of the caller's contender. */
  readonly other: Contender;
}

/**
 * The lock was not acquired before the deadline. The contender has left the queue. The message names the contenders
 * that block it. A web service can map `reason` to a status: 409 if the lock is taken, and 503 otherwise.
 *
 * @example
 * const lease = await mutex.acquire();
 * await mutex.acquire({ timeout: 500 }).catch((error) => {
 *   if (!(error instanceof LockTimeoutError)) throw error;
 *   console.log(error.reason, error.blockers[0]?.about?.language); // taken node
 * });
 */
export class LockTimeoutError extends withCode('LOCK_TIMEOUT') {
  /** The reason for the timeout, for programs. */
  readonly reason: TimeoutReason = 'unknown';

  /**
   * The blocking contenders that the client knew at the deadline, in queue order. The client sends no request to find
   * them, so the list is short: the two nearest contenders, and every holder or earlier waiter of this client.
   */
  readonly blockers: readonly Contender[] = [];

  /**
   * A deadlock between two owners that was found shortly before the deadline. The message ends with it. The client
   * searches for a deadlock only if the caller's scope holds other locks through the same client. `undefined` therefore
   * proves nothing; `zklock doctor --deadlocks` finds all deadlocks.
   */
  readonly deadlock: Deadlock | undefined = undefined;

  /** The problem at each server if the client was not connected; otherwise empty. */
  readonly servers: readonly ServerReport[] = [];
}

/**
 * The lease is no longer valid: its session ended, its node was deleted, or its client was closed.
 *
 * @example
 * lease.signal.addEventListener('abort', () => console.log(lease.signal.reason instanceof LockLostError)); // true
 * await client.close();
 */
export class LockLostError extends withCode('LOCK_LOST') {
  /** The reason for the loss, as in `lease.lossReason`. */
  readonly reason: LossReason | undefined;
}

/**
 * There is nothing to release, because this lease has already been released.
 *
 * @example
 * await lease.release();
 * await lease.release().catch((error) => console.log(error instanceof NotHeldError)); // true
 */
export class NotHeldError extends withCode('NOT_HELD') {}

/**
 * An owner that holds the read lock requested the write lock. It would wait for itself forever.
 *
 * @example
 * const { readLock, writeLock } = new ReadWriteLock(client, '/locks/catalogue');
 * const upgrade = readLock.using(() => writeLock.acquire());
 * await upgrade.catch((error) => console.log(error instanceof UpgradeRefusedError)); // true
 */
export class UpgradeRefusedError extends withCode('UPGRADE_REFUSED') {}

/**
 * No server replied in time. `servers` describes the problem at each server. So does `cause`: an `Error` with the code
 * that Node uses for such errors, if there is one (`ECONNREFUSED`, `ENOTFOUND`), or an `AggregateError` of several.
 *
 * @example
 * const nowhere = Client.connect('127.0.0.1:1', { connectTimeout: 100 });
 * await nowhere.catch((error) => {
 *   if (!(error instanceof ConnectionFailedError)) throw error;
 *   console.log(error.servers[0].problem, error.cause.code); // refused ECONNREFUSED
 * });
 */
export class ConnectionFailedError extends withCode('CONNECTION_FAILED') {
  /** The result of the last attempt at each server, in the order of `hosts`. */
  readonly servers: readonly ServerReport[] = [];
}

/**
 * The server refused the credentials, or they do not permit the operation.
 *
 * @example
 * const auth = [{ scheme: 'digest', credential: 'app:secret' }];
 * await using owner = await Client.connect(undefined, { auth, acl: 'creator' });
 * await new Mutex(owner, '/private/report').acquire();
 * const other = new Mutex(client, '/private/report').acquire();
 * await other.catch((error) => console.log(error instanceof AuthFailedError)); // true
 */
export class AuthFailedError extends withCode('AUTH_FAILED') {}

/**
 * An argument is out of range, or names something that does not exist. The message names the argument. The call created
 * and changed nothing, unless a shared count disappeared while it was in use.
 *
 * @example
 * await mutex.acquire({ timeout: -1 }).catch((error) => console.log(error instanceof BadArgumentError)); // true
 */
export class BadArgumentError extends withCode('BAD_ARGUMENT') {}

/**
 * The client has been closed.
 *
 * @example
 * await client.close();
 * await mutex.acquire().catch((error) => console.log(error instanceof ClientClosedError)); // true
 */
export class ClientClosedError extends withCode('CLIENT_CLOSED') {}

/**
 * The handle was created in another process and inherited through `fork`. Node's `child_process.fork()` never causes
 * this, because it starts a new program.
 *
 * @example
 * await mutex.locked().catch((error) => {
 *   if (!(error instanceof ForkedError)) throw error;
 *   console.error('create a new client in this process');
 * });
 */
export class ForkedError extends withCode('FORKED') {}

/**
 * The sequence counter of the lock directory is nearly exhausted. Delete the idle directory, or use another path.
 *
 * @example
 * const lease = await mutex.acquire().catch((error) => {
 *   if (!(error instanceof SequenceExhaustedError)) throw error;
 *   return new Mutex(client, `${mutex.path}-2`).acquire();
 * });
 */
export class SequenceExhaustedError extends withCode('SEQUENCE_EXHAUSTED') {}

/**
 * Another contender on this path uses a different number of permits. The message states both numbers. This contender
 * has left the queue.
 *
 * @example
 * await new Semaphore(client, '/locks/upstream', 5).acquire();
 * const other = new Semaphore(client, '/locks/upstream', 6).acquire();
 * await other.catch((error) => console.log(error instanceof PermitsMismatchError)); // true
 */
export class PermitsMismatchError extends withCode('PERMITS_MISMATCH') {}

/**
 * One operation of a transaction cannot be carried out, so none of the operations was.
 *
 * @example
 * const commit = lease.transaction().check('/no/such/node', 1).commit();
 * await commit.catch((error) => {
 *   if (!(error instanceof TransactionFailedError)) throw error;
 *   console.log(error.index, error.path); // 0 /no/such/node
 * });
 */
export class TransactionFailedError extends withCode('TRANSACTION_FAILED') {
  /** The index of the failed operation in the transaction, from 0. */
  readonly index: number | undefined;

  /** The path of the failed operation, as given. */
  readonly path: string | undefined;
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

const classes = {
  ZkLockError,
  LockTimeoutError,
  LockLostError,
  NotHeldError,
  UpgradeRefusedError,
  ConnectionFailedError,
  AuthFailedError,
  BadArgumentError,
  ClientClosedError,
  ForkedError,
  SequenceExhaustedError,
  PermitsMismatchError,
  TransactionFailedError,
};

// Defined on the prototypes, like the names of built-in errors, so that error objects have no own `name` property. The
// names are the keys of `classes`, because bundlers rename the classes themselves.
for (const [name, { prototype }] of Object.entries(classes)) {
  Object.defineProperty(prototype, 'name', { value: name, writable: true, configurable: true });
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(kinds, code);
}

/** The `code` that Node's own system errors have for each problem. */
const systemCodes: Readonly<Record<string, string>> = {
  'unknown host': 'ENOTFOUND',
  refused: 'ECONNREFUSED',
  unreachable: 'EHOSTUNREACH',
  silent: 'ETIMEDOUT',
  closed: 'ECONNRESET',
  'certificate name': 'ERR_TLS_CERT_ALTNAME_INVALID',
  'certificate expired': 'CERT_HAS_EXPIRED',
  'certificate authority': 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
};

function causeOf(reports: readonly NativeServerReport[]): Error | undefined {
  const causes = reports.map(({ server, problem, detail }) => {
    const code = systemCodes[problem];
    return Object.assign(new Error(`${server} ${detail}`), code !== undefined && { code });
  });
  return causes.length > 1 ? new AggregateError(causes, 'the problems of the servers') : causes[0];
}

/** Creates the error for a native error code. */
export function errorOf(code: string, message: string, details?: NativeDetails): Error {
  if (!isCode(code)) return new Error(`${message} (${code})`);
  const error = new kinds[code](message);
  if (details === undefined) return error;
  const { servers, blockers, deadlock, reason, operation } = details;
  if (servers.length > 0) {
    const reports = Object.freeze(servers.map((report) => Object.freeze(report)));
    Object.assign(error, { servers: reports });
    // Make `cause` non-enumerable, as the `Error` constructor does. Otherwise it would be shown twice.
    Object.defineProperty(error, 'cause', { value: causeOf(servers), writable: true, configurable: true });
  }
  if (blockers.length > 0) Object.assign(error, { blockers: Object.freeze(blockers.map(contenderOf)) });
  if (deadlock !== undefined) {
    const { held, waited, other } = deadlock;
    Object.assign(error, { deadlock: Object.freeze({ held, waited, other: contenderOf(other) }) });
  }
  if (error instanceof LockLostError) withReason(error, reason as LossReason | undefined);
  if (error instanceof LockTimeoutError && reason !== undefined) Object.assign(error, { reason });
  if (operation !== undefined) {
    const [index, path] = operation;
    Object.assign(error, { index, path });
  }
  return error;
}

/** Adds the reason of a loss to the error, and returns the error. */
export function withReason(error: LockLostError, reason: LossReason | undefined): LockLostError {
  return Object.assign(error, { reason });
}

/**
 * Checks the shape, not the class: in a separate realm, as test runners use for modules, the addon's `Error` is another
 * class.
 */
function isNativeError(error: unknown): error is { code: ErrorCode; message: string } {
  if (typeof error !== 'object' || error === null) return false;
  return 'code' in error && isCode(error.code) && 'message' in error && typeof error.message === 'string';
}

/**
 * Makes the stack of an error begin at the caller of `below`, so that it shows the user's call instead of internals.
 */
export function trimStack<E>(error: E, below: (...given: never[]) => unknown): E {
  if (error instanceof Error) Error.captureStackTrace(error, below);
  return error;
}

/** Calls the native addon, and converts its errors to errors of this package. */
export function native<T>(call: () => T, below: (...given: never[]) => unknown = native): T {
  try {
    return call();
  } catch (error) {
    if (isNativeError(error)) throw trimStack(errorOf(error.code, error.message), below);
    throw error;
  }
}

/** Resolves with the result of an attempt, or with `null` if the attempt fails with this kind of error. */
export async function nullIf<T>(kind: typeof LockTimeoutError | typeof NotHeldError, attempt: Promise<T>): Promise<T | null> {
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof kind) return null;
    throw error;
  }
}
