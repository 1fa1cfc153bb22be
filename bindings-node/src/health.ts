/** How a client is, and dumps. */

import { constants } from 'node:os';

import { dump as nativeDump, dumpOn as nativeDumpOn, type NativeHealth } from '../addon';

import { BadArgumentError } from './errors';
import { withJson } from './inspect';
import type { LeaseState } from './lease';
import type { ClientState, LockMode } from './types';
import { checkNumber, checkString } from './validate';

/** An owner in this process. */
export interface OwnerReport {
  /** Its number, which no other owner of this process has, or had before it. */
  readonly number: number;
  /** Its name, if it has one: see {@link AcquireOptions.owner}. */
  readonly name?: string;
}

/** An attempt to acquire a lock that has neither succeeded nor failed yet. */
export interface WaitReport {
  /** The lock's path. */
  readonly path: string;
  /** What it is to be held for. */
  readonly mode: LockMode;
  /** The label of the lock or of its client, of an election the candidate's id, if there is one. */
  readonly label?: string;
  /** The owner that asked for it: the outermost `using` scope around the acquire, or the acquire itself. */
  readonly owner: OwnerReport;
  /** How long the caller has waited, in ms. */
  readonly age: number;
  /** The full path of its node; absent as long as it has none, as without a connection. */
  readonly node?: string;
  /**
   * Whether it waits in its client's line for a lock with `cohort`: without a node, so that other clients do not see it.
   * One node of the client stands in the queue for the whole line; `position` and `behind` are those of that node.
   */
  readonly inCohort: boolean;
  /** How many stand before it in the queue, as far as is known; absent as long as it has no node. */
  readonly position?: number;
  /**
   * The full path of the node that it waits for: the nearest before it that it cannot hold together with. Absent if none
   * is known; and for a permit, which waits for any of those that hold one.
   */
  readonly behind?: string;
}

/** A hold. */
export interface HoldReport {
  /** The lock's path. */
  readonly path: string;
  /** What it is held for. */
  readonly mode: LockMode;
  /** The label of the lock or of its client, of an election the candidate's id, if there is one. */
  readonly label?: string;
  /** The owner that asked for it: the outermost `using` scope around the acquire, or the acquire itself. */
  readonly owner: OwnerReport;
  /** How long it has lasted, in ms. */
  readonly age: number;
  /** The full path of its node. */
  readonly node: string;
  /** Its fencing token. */
  readonly fencingToken: bigint;
  /** Its leases that have not been released: one for each acquire by its owner. */
  readonly levels: number;
  /**
   * Whether something keeps one of them until it is released or lost, though the program may have dropped it: an
   * election, or that its `signal` was read.
   */
  readonly pinned: boolean;
  /** The state of its leases. */
  readonly state: LeaseState;
  /** For how many ms no one else can get the lock, unless it is broken. */
  readonly remaining: number;
}

/** How a client is at one moment, with what in it waits and holds. In JSON, bigints are strings. */
export interface Health {
  /** Whether the client is connected to the ensemble. */
  readonly state: ClientState;
  /** The last ZooKeeper session, 0 if there has been none. */
  readonly sessionId: bigint;
  /** The server of the current connection, as `hosts` names it, with its port; absent without a connection. */
  readonly server?: string;
  /** The session time-out that the server granted, in ms; before that the one that the client asks for. */
  readonly sessionTimeout: number;
  /**
   * How many ms ago the last proof of the session was sent: a write that the server acknowledged. Absent without a
   * session, and before its first proof. A client that holds nothing and waits for nothing proves nothing, and this grows.
   */
  readonly lastProof?: number;
  /** What is left of the session's term, in ms: its leases are lost after that. 0 if it does not run. */
  readonly remaining: number;
  /**
   * Whether the library's thread let go of its queues within a tenth of a second. If not, the machine is badly
   * overloaded, or there is a bug; `waits` and `holds` are empty then.
   */
  readonly responsive: boolean;
  /** The attempts that wait for a lock, by path. */
  readonly waits: readonly WaitReport[];
  /** The holds, by path. */
  readonly holds: readonly HoldReport[];
}

/** Reports with numbers that `JSON.stringify` accepts, as strings where a double cannot hold them. */
export function healthOf(native: NativeHealth): Health {
  const health = native as Health;
  health.holds.forEach(withJson);
  return withJson(health);
}

/**
 * All waits and holds of this process, client by client, as text for people: for a program that hangs. The text may
 * change; programs read {@link Client.health}. Sends nothing, and waits for no server.
 *
 * @example
 * console.log(dump());
 */
export function dump(): string {
  return nativeDump();
}

/**
 * Has a signal write what {@link dump} returns, as `--report-on-signal` writes Node's own report. A thread of its own
 * writes, so it works while JavaScript is blocked. A handler for the signal that is there already runs as well; a
 * listener that is added to `process` for it later replaces this.
 *
 * @param signal such as `SIGUSR2`; `SIGUSR1` also starts Node's debugger.
 * @param file the number of an open file descriptor; by default 2, standard error. It may be closed afterwards.
 * @throws {BadArgumentError} for a signal or a file that cannot be used.
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
