/** Types that several modules share. */

/** The mode in which a lock is held or requested: `permit` for a semaphore, `leadership` for an election. */
export type LockMode = 'mutex' | 'read' | 'write' | 'permit' | 'leadership';

/** The reason for the loss of a lease. */
export type LossReason = 'term ended' | 'session expired' | 'node deleted' | 'held too long' | 'client closed';

/**
 * The connection state of a client. `suspended` means that the client is disconnected, but its session may still be
 * alive.
 */
export type ClientState = 'idle' | 'connecting' | 'connected' | 'suspended' | 'closed';

/** Options of a request, like those of `navigator.locks.request()`. */
export interface RequestOptions {
  /** `shared` lets other `shared` requests hold the lock at the same time. Default: `exclusive`. */
  mode?: 'exclusive' | 'shared' | undefined;
  /** Whether to call the callback with `null` immediately if the lock is taken. Default: false. */
  ifAvailable?: boolean | undefined;
  /** Gives up the wait when it aborts. Has no effect once the lock is held. */
  signal?: AbortSignal | undefined;
  /**
   * Not supported, because a holder cannot be stopped. Operators can take a lock away with {@link Client.breakLock}.
   */
  steal?: false | undefined;
}

/** A request that holds a lock or waits for it. */
export interface LockInfo {
  /** The lock path. */
  readonly name: string;
  readonly mode: 'exclusive' | 'shared';
  /** The id of the client's ZooKeeper session as a decimal string: `String(client.sessionId)`. */
  readonly clientId: string;
}

/** The holders and the waiters of a lock, in queue order. */
export interface LockSnapshot {
  readonly held: LockInfo[];
  readonly pending: LockInfo[];
}
