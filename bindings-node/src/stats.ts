/** Types for the statistics of a client. */

/** A histogram of durations, like a Prometheus histogram. Times are in ms. */
export interface Histogram {
  /** Number of durations. */
  readonly count: number;
  /** Sum of all durations. */
  readonly sum: number;
  /** The longest duration. */
  readonly max: number;
  /**
   * Upper bounds in ascending order, each with the number of durations up to that bound. The bounds are 1, 2 and 5
   * times each power of ten, from 0.1 ms to 1 000 s. Longer durations appear only in `count`.
   */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
}

/**
 * The statistics of a client since it was created: a snapshot of numbers that only grow.
 *
 * A *hold* begins when the lock is acquired, and ends with its last release or its loss. A re-entry begins no hold and
 * is not counted, because it sends no request. Each permit of a semaphore is a hold.
 */
export interface Stats {
  /**
   * The transport of the requests. `stock` means that the library was built without its own sockets and timers. Absent
   * before the first session.
   */
  readonly transport?: 'zklock' | 'stock';
  /** Number of holds that began. */
  readonly acquisitions: number;
  /** Number of acquisitions that had to wait for another contender. */
  readonly contended: number;
  /** Number of acquisitions that another holder in this client handed on, without a request: see `cohort`. */
  readonly handoffs: number;
  /** Number of acquisitions that reused a node that the client had kept, without a request: see `linger`. */
  readonly retakes: number;
  /** Number of tries that found the lock taken. */
  readonly busy: number;
  /** Number of attempts that timed out. */
  readonly timeouts: number;
  /** Number of holds that were lost, except by closing the client. */
  readonly losses: number;
  /** Lost holds by reason. Every reason is present except `client closed`, which is not counted. */
  readonly lossesByReason: Readonly<Record<string, number>>;
  /** Number of sessions that began. More than one means that a session was lost. */
  readonly sessions: number;
  /** Number of connections that were lost and replaced within a session. */
  readonly reconnections: number;
  /** Durations of the acquisitions, from the call to the grant. */
  readonly wait: Histogram;
  /** Durations of the holds that have ended. */
  readonly hold: Histogram;
  /**
   * Number of requests for locks, by kind: `create`, `list`, `watch`, `delete`, `heartbeat` and so on. Every kind is
   * present, even with a count of 0. Requests of the session itself are not counted: its start, its end, its pings, and
   * setting and removing watches on a server.
   */
  readonly requests: Readonly<Record<string, number>>;
}
