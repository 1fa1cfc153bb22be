/** The errors, and the only place where native errors become them. */

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
  /** What went wrong: a stable code, the same in every language. */
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
 * What happened at a server that could not be used: `not serving` is one without a quorum, `tls` anything about encryption
 * that has no name of its own, `answered` one that did, but not in the end.
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

/** What happened at one server, when it was last tried. */
export interface ServerReport {
  /** The server, as `host:port`. */
  readonly server: string;
  /** What happened, to act upon. */
  readonly problem: ServerProblem;
  /** What happened, for people: what the system, TLS or the server said. */
  readonly detail: string;
}

/**
 * Why the time was not enough. `taken`: an answer of a server during this attempt showed another contender in the way, or
 * this client itself holds the lock. `unreachable`: no server answered anything since the attempt began. `full`: as many
 * contenders waited as `maxWaiters` permits, so that it was refused at once. `unknown`: anything else, such as a
 * connection that was lost in between.
 */
export type TimeoutReason = 'taken' | 'unreachable' | 'unknown' | 'full';

/** Two owners that waited for each other. Does not change. */
export interface Deadlock {
  /** The path of the lock that the caller held, and for which the other owner waited. */
  readonly held: string;
  /** The path of the lock for which the caller waited. */
  readonly waited: string;
  /** The other owner's contender in the queue of `waited`, in front of the caller's. */
  readonly other: Contender;
}

/**
 * The lock was not acquired before the deadline. The contender has left the queue. The message says who is in the way.
 * A service answers by `reason`: 409 if the lock is taken, and 503 otherwise.
 *
 * @example
 * const lease = await mutex.acquire();
 * await mutex.acquire({ timeout: 500 }).catch((error) => {
 *   if (!(error instanceof LockTimeoutError)) throw error;
 *   console.log(error.reason, error.blockers[0].about?.language); // taken node
 * });
 */
export class LockTimeoutError extends withCode('LOCK_TIMEOUT') {
  /** Why the time was not enough, to act upon. */
  readonly reason: TimeoutReason = 'unknown';

  /**
   * The contenders in the way that were known when the time was up, in the order of the queue. Nobody was asked, so they
   * are few: the nearest two, and whoever of this client holds the lock or waits in front.
   */
  readonly blockers: readonly Contender[] = [];

  /**
   * The deadlock of two owners that was found shortly before the time was up; the message ends with it. It is searched
   * for only if the caller's scope holds other locks through the same client. `undefined` proves nothing: `zklock doctor
   * --deadlocks` finds all of them.
   */
  readonly deadlock: Deadlock | undefined = undefined;

  /** What happened at each server, if the client was not connected; else empty. */
  readonly servers: readonly ServerReport[] = [];
}

/**
 * The lease no longer proves anything: its session ended, its node was deleted, or its client was closed.
 *
 * @example
 * lease.signal.addEventListener('abort', () => console.log(lease.signal.reason instanceof LockLostError)); // true
 * await client.close();
 */
export class LockLostError extends withCode('LOCK_LOST') {
  /** Why, as `lease.lossReason` says it. */
  readonly reason: LossReason | undefined;
}

/**
 * There is nothing to release: this lease has already been released.
 *
 * @example
 * await lease.release();
 * await lease.release().catch((error) => console.log(error instanceof NotHeldError)); // true
 */
export class NotHeldError extends withCode('NOT_HELD') {}

/**
 * An owner that holds the read lock asked for the write lock: it would wait for itself for ever.
 *
 * @example
 * const { readLock, writeLock } = new ReadWriteLock(client, '/locks/catalogue');
 * const upgrade = readLock.using(() => writeLock.acquire());
 * await upgrade.catch((error) => console.log(error instanceof UpgradeRefusedError)); // true
 */
export class UpgradeRefusedError extends withCode('UPGRADE_REFUSED') {}

/**
 * No server answered in time. Its `servers` say what happened at each, and so does its `cause`: an `Error` with the code
 * that Node gives such errors, where there is one (`ECONNREFUSED`, `ENOTFOUND`), or an `AggregateError` of them.
 *
 * @example
 * const nowhere = Client.connect('127.0.0.1:1', { connectTimeout: 100 });
 * await nowhere.catch((error) => {
 *   if (!(error instanceof ConnectionFailedError)) throw error;
 *   console.log(error.servers[0].problem, error.cause.code); // refused ECONNREFUSED
 * });
 */
export class ConnectionFailedError extends withCode('CONNECTION_FAILED') {
  /** What happened at each server when it was last tried, in the order of `hosts`. */
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
 * An argument is out of range, or names what does not exist; the message says which. At most what it names was looked
 * at, and nothing is left behind, unless a shared count disappeared while it was in use.
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
 * The handle was created in another process and inherited through `fork`. Node's `child_process.fork()` inherits none:
 * it starts a new program.
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
 * Another contender on this path uses a different number of permits. The message states both; this contender has left.
 *
 * @example
 * await new Semaphore(client, '/locks/upstream', 5).acquire();
 * const other = new Semaphore(client, '/locks/upstream', 6).acquire();
 * await other.catch((error) => console.log(error instanceof PermitsMismatchError)); // true
 */
export class PermitsMismatchError extends withCode('PERMITS_MISMATCH') {}

/**
 * One operation of a transaction cannot be carried out, so none of them was.
 *
 * @example
 * const commit = lease.transaction().check('/no/such/node', 1).commit();
 * await commit.catch((error) => {
 *   if (!(error instanceof TransactionFailedError)) throw error;
 *   console.log(error.index, error.path); // 0 /no/such/node
 * });
 */
export class TransactionFailedError extends withCode('TRANSACTION_FAILED') {
  /** The place of the operation in the transaction, from 0. */
  readonly index: number | undefined;

  /** The path of the operation, as given. */
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

// On the prototypes, as with the built-in errors, so that the errors have no such property of their own. Not the names
// of the classes: bundlers rename those, but no properties.
for (const [name, { prototype }] of Object.entries(classes)) {
  Object.defineProperty(prototype, 'name', { value: name, writable: true, configurable: true });
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(kinds, code);
}

/** What the system's own errors have as their `code` in Node. */
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
  return causes.length > 1 ? new AggregateError(causes, 'what happened at the servers') : causes[0];
}

/** The error for a code of the native half. */
export function errorOf(code: string, message: string, details?: NativeDetails): Error {
  if (!isCode(code)) return new Error(`${message} (${code})`);
  const error = new kinds[code](message);
  if (details === undefined) return error;
  const { servers, blockers, deadlock, reason, operation } = details;
  if (servers.length > 0) {
    const reports = Object.freeze(servers.map((report) => Object.freeze(report)));
    Object.assign(error, { servers: reports });
    // As the constructor of `Error` does it: it is not shown twice.
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

/** The error, with the reason of a loss. */
export function withReason(error: LockLostError, reason: LossReason | undefined): LockLostError {
  return Object.assign(error, { reason });
}

/** By its shape: in a realm of its own, as test runners give to modules, the native half's `Error` is another class. */
function isNativeError(error: unknown): error is { code: ErrorCode; message: string } {
  if (typeof error !== 'object' || error === null) return false;
  return 'code' in error && isCode(error.code) && 'message' in error && typeof error.message === 'string';
}

/** Has the stack of an error begin where `below` was called, so that it shows what the user called, not how it works. */
export function raisedBelow<E>(error: E, below: (...given: never[]) => unknown): E {
  if (error instanceof Error) Error.captureStackTrace(error, below);
  return error;
}

/** Calls the native half; what it throws becomes an error of this package. */
export function native<T>(call: () => T, below: (...given: never[]) => unknown = native): T {
  try {
    return call();
  } catch (error) {
    if (isNativeError(error)) throw raisedBelow(errorOf(error.code, error.message), below);
    throw error;
  }
}

/** What an attempt resolves with, or `null` if it fails with this kind of error. */
export async function nullIf<T>(kind: typeof LockTimeoutError | typeof NotHeldError, attempt: Promise<T>): Promise<T | null> {
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof kind) return null;
    throw error;
  }
}
