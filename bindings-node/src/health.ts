/** Health reports of clients, and dumps of the whole process. */

import { constants } from 'node:os';

import { dump as nativeDump, dumpOn as nativeDumpOn, type NativeHealth } from '../addon';

import { BadArgumentError } from './errors';
import { withJson } from './inspect';
import type { LeaseState } from './lease';
import type { ClientState, LockMode } from './types';
import { checkNumber, checkString } from './validate';

/** An owner in this process. */
export interface OwnerReport {
  /** The owner's number: unique in this process, and never reused. */
  readonly number: number;
  /** The owner's name, if it has one: see {@link AcquireOptions.owner}. */
  readonly name?: string;
}

/** An attempt to acquire a lock that has neither succeeded nor failed yet. */
export interface WaitReport {
  /** The lock's path. */
  readonly path: string;
  /** The requested mode. */
  readonly mode: LockMode;
  /** The label of the lock or its client, or the candidate's id for an election, if there is one. */
  readonly label?: string;
  /** The owner of the attempt: the outermost `using` scope around the acquire, or the acquire itself. */
  readonly owner: OwnerReport;
  /** The time that the caller has waited, in ms. */
  readonly age: number;
  /** Full path of the attempt's node; absent while it has no node, for example without a connection. */
  readonly node?: string;
  /**
   * Whether the attempt waits inside its client for a lock with `cohort`. Such an attempt has no node, so other clients
   * do not see it. One node of the client represents all these attempts; `position` and `behind` describe that node.
   */
  readonly inCohort: boolean;
  /** Known number of contenders ahead in the queue; absent while the attempt has no node. */
  readonly position?: number;
  /**
   * Full path of the node that the attempt waits for: the nearest node ahead of it that excludes it. Absent if no such
   * node is known, and for a semaphore, where an attempt waits for any holder of a permit.
   */
  readonly behind?: string;
}

/** A hold: a lock that one owner has now. */
export interface HoldReport {
  /** The lock's path. */
  readonly path: string;
  /** The mode in which the lock is held. */
  readonly mode: LockMode;
  /** The label of the lock or its client, or the candidate's id for an election, if there is one. */
  readonly label?: string;
  /** The owner of the hold: the outermost `using` scope around the acquire, or the acquire itself. */
  readonly owner: OwnerReport;
  /** Duration of the hold so far, in ms. */
  readonly age: number;
  /** Full path of the hold's node. */
  readonly node: string;
  /** The fencing token of the hold. */
  readonly fencingToken: bigint;
  /** Number of leases that have not been released: one for each acquire by the owner. */
  readonly levels: number;
  /**
   * Whether one of the leases is kept until it is released or lost, even if the program drops it. An election keeps its
   * lease, and so does reading `signal`.
   */
  readonly pinned: boolean;
  /** The state of the leases. */
  readonly state: LeaseState;
  /** The time in ms during which no other client can get the lock, unless an operator breaks it. */
  readonly remaining: number;
}

/** The state of a client at one moment, with its pending acquires and its holds. In JSON, bigints are strings. */
export interface Health {
  /** The state of the connection to the ensemble. */
  readonly state: ClientState;
  /** The id of the last ZooKeeper session; 0 if there has been none. */
  readonly sessionId: bigint;
  /** The server of the current connection, as named in `hosts`, with its port; absent without a connection. */
  readonly server?: string;
  /** The session timeout in ms: the granted value, or the requested value before the first session. */
  readonly sessionTimeout: number;
  /**
   * Time in ms since the client sent the last write that the server acknowledged. Such a write proves that the session
   * is alive. Absent without a session, and before the first such write. The value grows while the client holds nothing
   * and waits for nothing, because it then sends no such writes.
   */
  readonly lastProof?: number;
  /** The time in ms until the leases are lost if no server answers. 0 if no lease can be valid. */
  readonly remaining: number;
  /**
   * Whether the library's thread answered within 100 ms. If not, the machine is heavily overloaded or there is a bug,
   * and `waits` and `holds` are empty.
   */
  readonly responsive: boolean;
  /** The attempts that wait for a lock, ordered by path. */
  readonly waits: readonly WaitReport[];
  /** The holds, ordered by path. */
  readonly holds: readonly HoldReport[];
}

/** Returns the report in a form that `JSON.stringify` accepts: numbers that a double cannot hold become strings. */
export function healthOf(native: NativeHealth): Health {
  const health = native as Health;
  health.holds.forEach(withJson);
  return withJson(health);
}

/**
 * Returns all waits and holds of this process as text for people, grouped by client. Use it to inspect a hanging
 * program. The format may change; programs should read {@link Client.health}. Sends nothing, and waits for no server.
 *
 * @example
 * console.log(dump());
 */
export function dump(): string {
  return nativeDump();
}

/**
 * Makes a signal write the text of {@link dump}, as `--report-on-signal` writes Node's own report. A separate thread
 * writes it, so this works even while JavaScript is blocked. An existing handler for the signal also runs. A listener
 * that is added to `process` for the signal later replaces this handler.
 *
 * @param signal for example `SIGUSR2`. `SIGUSR1` also starts Node's debugger.
 * @param file number of an open file descriptor. Default: 2, standard error. The program may close it afterwards.
 * @throws {BadArgumentError} for a signal or a file that cannot be used. Windows has no signal that asks for a dump:
 * there, for every signal.
 *
 * @example
 * dumpOn('SIGUSR2');
 */
export function dumpOn(signal: NodeJS.Signals, file = 2): void {
  checkString('signal', signal);
  checkNumber('file', file);
  const number = (constants.signals as Partial<Record<string, number>>)[signal];
  if (number === undefined) throw new BadArgumentError(`signal: ${JSON.stringify(signal)} is not a signal`);
  nativeDumpOn(number, file);
}
