/** Types of values that several files name. */

/** What a lock is held for, or is to be: `permit` of a semaphore, `leadership` of an election. */
export type LockMode = 'mutex' | 'read' | 'write' | 'permit' | 'leadership';

/** Why a lease is lost. */
export type LossReason = 'term ended' | 'session expired' | 'node deleted' | 'held too long' | 'client closed';

/** Whether a client is connected to the ensemble. `suspended`: disconnected, but its session may still be alive. */
export type ClientState = 'idle' | 'connecting' | 'connected' | 'suspended' | 'closed';

/** How to request a lock, as the options of `navigator.locks.request()`. */
export interface RequestOptions {
  /** Whether other `shared` requests may hold the lock at the same time. Default: `exclusive`. */
  mode?: 'exclusive' | 'shared' | undefined;
  /** Whether to call the callback with `null` at once if the lock is taken. Default: false. */
  ifAvailable?: boolean | undefined;
  /** Gives up the wait when it aborts. Has no effect once the lock is held. */
  signal?: AbortSignal | undefined;
  /** Not supported: a holder cannot be stopped. For operators, {@link Client.breakLock} takes a lock away. */
  steal?: false | undefined;
}

/** A request that holds a lock or waits for it. */
export interface LockInfo {
  /** The lock path. */
  readonly name: string;
  readonly mode: 'exclusive' | 'shared';
  /** The ZooKeeper session of its client, as a decimal string: `String(client.sessionId)`. */
  readonly clientId: string;
}

/** Who holds a lock, and who waits for it, in the order of the queue. */
export interface LockSnapshot {
  readonly held: LockInfo[];
  readonly pending: LockInfo[];
}
