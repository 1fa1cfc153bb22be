import { inspect } from 'node:util';

import { election, type NativeCandidate, type NativeElection, type NativeLease, NativeRounds, shown } from '../addon';

import { run, untilDone } from './bridge';
import { type Client, clientInternals } from './client';
import { LockLostError, native, ZkLockError } from './errors';
import { trackLease } from './events';
import { showAs } from './inspect';
import { isOpenLease, type Keeper, Lease, leaseInternals, type ReleaseOptions } from './lease';
import { Leased } from './leased';
import { clientFor, waitChecks, type WaitOptions } from './lock';
import { pause } from './pause';
import { traceHookOf, untraced } from './trace-hook';
import { type Body, using, type UsingArguments } from './using';
import { checkFunction, checkOptions, checkSignal, checkString, internalKey } from './validate';

/** Options of an {@link Election}. */
export interface ElectionOptions {
  /**
   * The id that other programs see, at most 1024 bytes of UTF-8. It may be empty and need not be unique. Default:
   * `host:pid`.
   */
  id?: string | undefined;
}

/** Options of {@link Election.observe}. */
export interface ObserveOptions {
  /** Ends the observation when it aborts: the iteration throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Options of {@link Election.run}. */
export interface RunOptions {
  /** Ends the run when it aborts, but first waits for a body that is running. */
  signal?: AbortSignal | undefined;
}

/** One candidate of an election, at the time of the call. Immutable. */
export interface Candidate {
  /** Position among the candidates, from 0. The candidate at 0 leads. */
  readonly position: number;
  /**
   * The candidate's id. Empty if it has none, if it is longer than 4 KiB, or if this client has no permission to read
   * it.
   */
  readonly id: string;
  /** Full path of the candidate's node, below the client's chroot, like `lease.node`. */
  readonly node: string;
  /** The ZooKeeper session that owns the node. */
  readonly sessionId: bigint;
  /** The fencing token of the candidate's leadership, now or once it leads. */
  readonly fencingToken: bigint;
}

let create: (native: NativeLease, client: object) => Leadership;

/**
 * Proof of leadership: a {@link Lease} of the election's lock, whose `signal` aborts when the leadership is lost. The
 * election keeps the leadership until it is resigned or lost, even if the program drops every reference to it.
 *
 * @example
 * const leadership = await election.campaign();
 * console.log(leadership.fencingToken, leadership.signal.aborted);
 * await leadership.resign();
 */
export class Leadership extends Lease {
  static {
    create = (native, client) => new Leadership(native, client, internalKey);
  }

  /**
   * Resigns, so that the next candidate leads. Same as `release()`.
   *
   * @example
   * const leadership = await election.campaign();
   * await leadership.resign();
   * console.log(election.isLeader); // false
   */
  async resign(options: ReleaseOptions = {}): Promise<void> {
    await this.release(options);
  }
}

/** Keeps one open leadership of an election referenced. All leaderships of an election share one hold. */
class Leaderships implements Keeper {
  #kept: Lease | undefined;
  readonly #all = new Leased();

  add(leadership: Leadership): void {
    leaseInternals(leadership).keepWith(this);
    this.#all.add(leadership);
    if (this.#kept === undefined || !isOpenLease(this.#kept)) this.#keep(leadership);
  }

  over(lease: Lease): void {
    if (lease === this.#kept) this.#keep(this.#all.open()[0]);
  }

  #keep(lease: Lease | undefined): void {
    this.#kept = lease;
    if (lease !== undefined) leaseInternals(lease).native.pin();
  }
}

/**
 * A candidate for the leadership at a path. It can also be used only to observe the leader.
 *
 * Candidates lead in the order in which the server queued them. An election is an exclusive lock with all guarantees of
 * this library. Services that use Curator's `LeaderLatch` can take part in the same election.
 *
 * An election object is one candidate, even if several campaigns run at the same time. They share a node and a
 * leadership, which ends when the last of them resigns. The election continues to lead even if the program drops its
 * `Leadership` objects without resigning. If the election object itself is garbage collected while it leads, it
 * resigns, with a warning in the log. Creating an election sends nothing.
 *
 * @example
 * const election = new Election(client, '/elections/scheduler', { id: 'scheduler-1' });
 * await election.using(async (leadership) => {
 *   console.log(`leading, with token ${leadership.fencingToken}`);
 * });
 */
export class Election {
  readonly #native: NativeElection;
  readonly #client: Client;
  readonly #path: string;
  readonly #leaderships = new Leaderships();

  /**
   * @param client the client to use.
   * @param path an absolute path below the client's chroot. Missing parents are created when needed.
   * @throws {@link BadArgumentError} if the path is malformed or the id too long.
   */
  constructor(client: Client, path: string, options: ElectionOptions = {}) {
    const on = clientFor(client, path);
    checkOptions<ElectionOptions>(options, { id: checkString });
    this.#native = native(() => election(on, path, options.id));
    this.#client = client;
    this.#path = path;
  }

  /** The path of the election, as given. */
  get path(): string {
    return this.#path;
  }

  /** The candidate's id. */
  get id(): string {
    return this.#native.id;
  }

  /**
   * Whether this candidate leads. Becomes false when the candidate resigns or when the term of its leadership ends,
   * which is before another candidate can lead. Sends nothing.
   */
  get isLeader(): boolean {
    return this.#native.isLeader;
  }

  /**
   * Becomes a candidate, waits until it leads, and resolves with the leadership. The wait continues even across a loss
   * of the connection or the session. A campaign that times out or is aborted withdraws the candidate. With a timeout
   * of 0, the candidate leads only if there is no other candidate.
   *
   * @throws {@link LockTimeoutError} if it does not lead in time.
   * @throws {@link BadArgumentError} if the path has a contender of kazoo, whose election does not see zklock's
   *   candidates.
   * @throws the signal's reason if the signal aborts.
   * @throws otherwise as `Lock.acquire()`.
   *
   * @example
   * const leadership = await election.campaign({ timeout: 5000, signal: AbortSignal.timeout(2000) });
   * console.log(election.isLeader); // true
   * await leadership.resign();
   */
  async campaign(options: WaitOptions = {}): Promise<Leadership> {
    checkOptions<WaitOptions>(options, waitChecks);
    const tracing = traceHookOf(clientInternals(this.#client), () => this.isLeader);
    if (tracing !== undefined) {
      return tracing.wait([this.#path], options.timeout === 0, () => untraced(() => this.campaign(options)));
    }
    const { timeout, connectTimeout, signal } = options;
    const granted = await run<NativeLease>(
      (bridge) => this.#native.campaign(bridge, timeout, connectTimeout),
      clientInternals(this.#client).keepAlive,
      signal,
    );
    const leadership = create(granted, this.#client);
    trackLease(this.#client, leadership);
    this.#leaderships.add(leadership);
    return leadership;
  }

  /**
   * Runs `body` while leading, and resigns when the body, or the promise that it returns, has ended. Resolves or
   * rejects as the body does. If the leadership is lost, `leadership.signal` aborts, so that the body can stop.
   *
   * @throws as `campaign()`, before the body runs.
   * @throws {@link LockLostError} after the body has ended, if the leadership was lost meanwhile; see `Lock.using()`.
   *
   * @example
   * const leads = await election.using({ timeout: 5000 }, () => election.isLeader);
   * console.log(leads, election.isLeader); // true false
   */
  async using<T>(body: Body<Leadership, T>): Promise<T>;
  async using<T>(options: WaitOptions, body: Body<Leadership, T>): Promise<T>;
  async using<T>(...args: UsingArguments<WaitOptions, Leadership, T>): Promise<T> {
    return using(
      args,
      (options) => this.campaign(options),
      () => false,
    );
  }

  /**
   * Campaigns, runs `body` while this candidate leads, and campaigns again. For a program that should lead whenever it
   * can. The leadership is resigned when the body, or the promise that it returns, has ended. If the leadership is
   * lost, `leadership.signal` aborts, so that the body can stop; then `run()` campaigns again. After a leadership that
   * ended within five seconds, `run()` pauses for up to six seconds.
   *
   * Resolves when the client is closed or drained. If `signal` aborts, a campaign or a pause ends immediately. A body
   * that is running is awaited: it keeps the leadership, and `leadership.signal` does not abort. A body that should
   * stop in this case needs the signal too, for example through `AbortSignal.any([signal, leadership.signal])`.
   *
   * @throws the body's error, after resigning.
   * @throws the signal's reason if the signal aborts, even while the body runs, unless the body fails.
   * @throws other errors as `campaign()` does, except {@link ConnectionFailedError}, after which it campaigns again.
   *
   * @example
   * const stop = new AbortController();
   * const work = (leadership) => {
   *   leadership.check();
   *   stop.abort();
   * };
   * await election.run(work, { signal: stop.signal }).catch((error) => console.log(error.name)); // AbortError
   */
  async run(body: Body<Leadership, unknown>, options: RunOptions = {}): Promise<void> {
    checkFunction('body', body);
    checkOptions<RunOptions>(options, { signal: checkSignal });
    const { signal } = options;
    const client = clientInternals(this.#client);
    const rounds = new NativeRounds();
    // Use one stream for all pauses, because the native addon drops a stream only at the next state change.
    const states = client.native.states();
    for (;;) {
      const rest = await this.#round(rounds, body, signal);
      if (rest === null) return;
      if (rest > 0) await pause(states, rest, client.keepAlive, signal);
    }
  }

  /**
   * Campaigns and leads once. Resolves with the pause before the next round, in ms, or with `null` if the client is
   * closed.
   */
  async #round(rounds: NativeRounds, body: Body<Leadership, unknown>, signal?: AbortSignal): Promise<number | null> {
    let leadership: Leadership;
    try {
      leadership = await this.campaign({ signal });
    } catch (error) {
      return pauseAfter(error, rounds, this.#path, signal);
    }
    rounds.begin();
    try {
      await using(
        [body],
        () => Promise.resolve(leadership),
        () => false,
      );
    } catch (error) {
      // Losing this leadership only ends the round. The body may also throw the `LockLostError` of another lock.
      if (!(error instanceof LockLostError) || leadership.lossReason === undefined) throw error;
    }
    return rounds.end();
  }

  /**
   * Returns the candidate that leads or is about to lead; `null` if there is no candidate. Takes three round trips. The
   * answer may be out of date when it arrives, so protect actions of the leader with the fencing token.
   *
   * @throws as `Lock.contenders()`.
   *
   * @example
   * const leadership = await election.campaign();
   * console.log((await election.leader())?.id); // scheduler-1
   */
  async leader(): Promise<Candidate | null> {
    const leader = await run<NativeCandidate | null>((bridge) => this.#native.leader(bridge), untilDone);
    return leader && candidateOf(leader);
  }

  /**
   * Returns the candidates in the order in which they will lead.
   *
   * @throws as `leader()`.
   *
   * @example
   * for (const { position, id } of await election.candidates()) console.log(position, id);
   */
  async candidates(): Promise<Candidate[]> {
    const candidates = await run<NativeCandidate[]>((bridge) => this.#native.candidates(bridge), untilDone);
    return candidates.map(candidateOf);
  }

  /**
   * Yields the current leader, and the new leader after each change; `null` while there is no candidate. The observer
   * need not be a candidate. It watches only one node, regardless of the number of candidates. If the leader changes
   * several times before the loop asks for the next value, only the last change is yielded. The observation continues
   * after a loss of the connection or the session. Keeps the process alive while it waits.
   *
   * @throws the signal's reason if the signal aborts.
   * @throws {@link ClientClosedError} once the client is closed.
   *
   * @example
   * const leadership = await election.campaign();
   * for await (const leader of election.observe({ signal: AbortSignal.timeout(5000) })) {
   *   console.log(leader?.id); // scheduler-1
   *   break;
   * }
   */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<Candidate | null, never> {
    checkOptions<ObserveOptions>(options, { signal: checkSignal });
    const leaders = this.#native.observe();
    const { keepAlive } = clientInternals(this.#client);
    for (;;) {
      const leader = await run<NativeCandidate | null>((bridge) => leaders.next(bridge), keepAlive, options.signal);
      yield leader && candidateOf(leader);
    }
  }
}

/**
 * Returns the pause after a failed campaign in ms, or `null` if the client is closed. Throws an error that would recur.
 */
function pauseAfter(error: unknown, rounds: NativeRounds, path: string, signal?: AbortSignal): number | null {
  // The reason of a signal can be any error.
  if (signal?.aborted === true || !(error instanceof ZkLockError)) throw error;
  try {
    return rounds.fail(path, error.code, error.message);
  } catch {
    // `rounds.fail` throws the same error without its details.
    throw error;
  }
}

showAs(Election.prototype, 'Election', ({ path, id, isLeader }) => ({ path, id, isLeader }));

// `console.log` would print text from other programs unescaped, including control sequences for the terminal.
const inspected = {
  value(this: Candidate): object {
    return { ...this, id: shown(this.id), node: shown(this.node) };
  },
};

// `JSON.stringify` rejects a bigint.
const json = {
  value(this: Candidate): object {
    return { ...this, sessionId: String(this.sessionId), fencingToken: String(this.fencingToken) };
  },
};

function candidateOf(candidate: NativeCandidate): Candidate {
  const made = { ...candidate };
  Object.defineProperty(made, inspect.custom, inspected);
  Object.defineProperty(made, 'toJSON', json);
  return Object.freeze(made);
}
