/** What a client counts. */

/** How often something took how long, in the form that Prometheus calls a histogram. Times are in ms. */
export interface Histogram {
  /** How often. */
  readonly count: number;
  /** How long together. */
  readonly sum: number;
  /** The longest of all. */
  readonly max: number;
  /**
   * Upper bounds, growing, each with how many took no longer than this. The bounds are 1, 2 and 5 of every power of
   * ten from 0.1 ms to 1 000 s; what took longer is in `count` only.
   */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
}

/**
 * What a client did since it was made: a snapshot, of numbers that only grow.
 *
 * A *hold* begins with a grant and ends with its last release, or with its loss. Re-entry begins none, and counts
 * nowhere: it costs nothing. Each permit of a semaphore is a hold.
 */
export interface Stats {
  /**
   * What carries the requests: `stock` if the library was built on other sockets and timers than its own. Absent before
   * there was a session.
   */
  readonly transport?: 'zklock' | 'stock';
  /** Holds that began. */
  readonly acquisitions: number;
  /** Those among them that had to wait for somebody. */
  readonly contended: number;
  /** Tries that found the lock taken. */
  readonly busy: number;
  /** Attempts whose time ran out. */
  readonly timeouts: number;
  /** Holds that were lost, other than by closing the client. */
  readonly losses: number;
  /** How long the acquisitions took, from the call to the grant. */
  readonly wait: Histogram;
  /** How long the holds lasted that have ended. */
  readonly hold: Histogram;
  /**
   * Requests for locks, by what they were for: `create`, `list`, `watch`, `delete`, `heartbeat` and so on. Every
   * kind is there, also those that were not sent. What a session sends for itself is not among them: its pings, its
   * beginning and end, and setting or dropping watches on a server.
   */
  readonly requests: Readonly<Record<string, number>>;
}
