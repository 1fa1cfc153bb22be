/** The statistics of a client. */

/** How long something took, as a histogram like those of Prometheus. Times are in ms. */
export interface Histogram {
  /** How often it happened. */
  readonly count: number;
  /** How long it took in total. */
  readonly sum: number;
  /** How long the longest one took. */
  readonly max: number;
  /**
   * Upper bounds in ascending order, each with how many took no longer than that. The bounds are 1, 2 and 5 times every
   * power of ten from 0.1 ms to 1 000 s; only `count` includes what took longer.
   */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
}

/**
 * What a client has done so far: a snapshot of numbers that only grow.
 *
 * A *hold* begins when the lock is acquired, and ends with its last release or with its loss. Re-entry begins no hold
 * and counts nowhere: it costs nothing. Each permit of a semaphore is a hold.
 */
export interface Stats {
  /**
   * What carries the requests: `stock` if the library was built with other sockets and timers than its own. Absent
   * before the first session.
   */
  readonly transport?: 'zklock' | 'stock';
  /** Holds that began. */
  readonly acquisitions: number;
  /** Those among them that had to wait for another contender. */
  readonly contended: number;
  /** Acquisitions that the client handed on without a request: see the option `cohort`. */
  readonly handoffs: number;
  /** Acquisitions that took a node again, without a request: see the option `linger`. */
  readonly retakes: number;
  /** Tries that found the lock taken. */
  readonly busy: number;
  /** Attempts that timed out. */
  readonly timeouts: number;
  /** Holds that were lost, except by closing the client. */
  readonly losses: number;
  /** The same by reason. Every reason is present, except closing the client, which is not counted. */
  readonly lossesByReason: Readonly<Record<string, number>>;
  /** Sessions that began: more than one says that one was lost. */
  readonly sessions: number;
  /** Connections that were lost and replaced within a session. */
  readonly reconnections: number;
  /** How long the acquisitions took, from the call to the grant. */
  readonly wait: Histogram;
  /** How long those holds lasted that have ended. */
  readonly hold: Histogram;
  /**
   * Requests for locks, by kind: `create`, `list`, `watch`, `delete`, `heartbeat` and so on. Every kind is present,
   * even if none was sent. Requests that a session sends for itself are not counted: its pings, its beginning and end,
   * and those that set or drop watches on a server.
   */
  readonly requests: Readonly<Record<string, number>>;
}
