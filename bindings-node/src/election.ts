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
import { checkFunction, checkOptions, checkSignal, checkString, ours } from './validate';

/** Who a candidate is. */
export interface ElectionOptions {
  /**
   * What others see of the candidate, at most 1024 bytes of UTF-8. It may be empty, and ids need not differ. Default:
   * `host:pid`.
   */
  id?: string | undefined;
}

/** How to observe. */
export interface ObserveOptions {
  /** Ends it when it aborts: the iteration throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** How to lead again and again. */
export interface RunOptions {
  /** Ends the run when it aborts, but waits for the body if one runs. */
  signal?: AbortSignal | undefined;
}

/** One candidate of an election, at the time of the call. Does not change. */
export interface Candidate {
  /** Its place, from 0. The first leads. */
  readonly position: number;
  /** Its id; empty if it has none, or if it is longer than 4 KiB or may not be read. */
  readonly id: string;
  /** The full path of its node, below the client's chroot, as `lease.node` is. */
  readonly node: string;
  /** The ZooKeeper session that owns the node. */
  readonly sessionId: bigint;
  /** The fencing token of its leadership, now or when it leads. */
  readonly fencingToken: bigint;
}

let create: (native: NativeLease, client: object) => Leadership;

/**
 * Proof of leading: a {@link Lease} of the election's lock, whose `signal` aborts when the leadership is lost. Its
 * election keeps it until it is resigned or lost, whether or not anything else refers to it.
 *
 * @example
 * const leadership = await election.campaign();
 * console.log(leadership.fencingToken, leadership.signal.aborted);
 * await leadership.resign();
 */
export class Leadership extends Lease {
  static {
    create = (native, client) => new Leadership(native, client, ours);
  }

  /**
   * Lets the next candidate lead: another name for `release()`.
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

/** What an election keeps of its leaderships: one, as long as there is one. The others are of the same hold. */
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
 * A candidate for the leadership at a path, or one who only wants to know who leads.
 *
 * Candidates lead in the order in which the server queued them. It is an exclusive lock, with all that this library
 * promises of one; services on Curator's `LeaderLatch` take part in the same election.
 *
 * An election object is one candidate: campaigns that overlap share a node and a leadership, which ends when the last of
 * them is resigned. Of those that the program drops without resigning them, it keeps one, so that it leads on. An election
 * that is itself garbage collected while it leads resigns, with a warning in the log. Creating one sends nothing.
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
   * @param client its client.
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
   * Whether this candidate leads. False from the moment at which it resigns, or at which the term of its leadership is
   * over: that is before another candidate can lead. Sends nothing.
   */
  get isLeader(): boolean {
    return this.#native.isLeader;
  }

  /**
   * Becomes a candidate, waits until it leads, and resolves with the leadership. Loss of the connection or the session
   * only lengthens the wait. An attempt that times out or is aborted withdraws the candidate. With a time-out of 0 it
   * leads only if there is no other candidate.
   *
   * @throws {@link LockTimeoutError} if it does not lead in time.
   * @throws {@link BadArgumentError} where a contender of kazoo's stands, whose election does not see candidates.
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
   * Runs `body` while leading, and resigns when the body, or the promise that it returns, has ended. Resolves or rejects
   * as the body does. If the leadership is lost, `leadership.signal` aborts, so that the body can stop.
   *
   * @throws as `campaign()`, before the body runs.
   * @throws {@link LockLostError} when the body has ended, if the leadership was lost meanwhile; see `Lock.using()`.
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
   * Campaigns, runs `body` while this candidate leads, and campaigns again: for a program that is to lead whenever it can.
   * When the body, or the promise that it returns, has ended, the leadership is resigned. If the leadership is lost,
   * `leadership.signal` aborts, so that the body can stop; when it has, `run()` campaigns again. Leaderships that end
   * within five seconds are followed by pauses of up to six seconds.
   *
   * Resolves when the client is closed or drained. If `signal` aborts, a campaign or a pause ends at once. A body that runs
   * is awaited: it keeps the leadership, and `leadership.signal` does not abort. A body that should stop then needs
   * the signal too, for instance by `AbortSignal.any([signal, leadership.signal])`.
   *
   * @throws the body's error, after resigning.
   * @throws the signal's reason if the signal aborts, also while the body runs, unless the body fails.
   * @throws otherwise as `campaign()`, but not {@link ConnectionFailedError}, after which it campaigns again.
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
    // One for all pauses: the native half forgets it only with the next change.
    const states = client.native.states();
    for (;;) {
      const rest = await this.#round(rounds, body, signal);
      if (rest === null) return;
      if (rest > 0) await pause(states, rest, client.keepAlive, signal);
    }
  }

  /** Campaigns and leads once. Resolves with the pause that follows, in ms, or with `null` if the client is closed. */
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
      // A loss ends the round, and no more than that. The body may have thrown that of another lock.
      if (!(error instanceof LockLostError) || leadership.lossReason === undefined) throw error;
    }
    return rounds.end();
  }

  /**
   * Who leads, or is about to; `null` if there is no candidate. Takes three round trips. The answer may be out of date
   * when it arrives: what only the leader may do needs the fencing token.
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
   * The candidates, in the order in which they lead.
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
   * Who leads, now and after each change; `null` while there is no candidate. Needs no candidate, and watches one node,
   * however many candidates there are. Of changes that follow one another faster than they are asked for, only the last
   * is given. Loss of the connection or the session only delays news. Keeps the process alive while it waits.
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

/** The pause after a campaign that failed, in ms; `null` if the client is closed. Throws a failure that would be repeated. */
function pauseAfter(error: unknown, rounds: NativeRounds, path: string, signal?: AbortSignal): number | null {
  // The reason of a signal can be any error.
  if (signal?.aborted === true || !(error instanceof ZkLockError)) throw error;
  try {
    return rounds.fail(path, error.code, error.message);
  } catch {
    // The same failure, without its details.
    throw error;
  }
}

showAs(Election.prototype, 'Election', ({ path, id, isLeader }) => ({ path, id, isLeader }));

// `console.log` would show what others wrote as it is, with everything that it does to a terminal.
const inspected = {
  value(this: Candidate): object {
    return { ...this, id: shown(this.id), node: shown(this.node) };
  },
};

// `JSON.stringify` refuses a bigint.
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
