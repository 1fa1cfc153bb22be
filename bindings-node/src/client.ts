import { type Bridge, NativeClient } from '../addon';

import { run, untilDone, watch, withBridge } from './bridge';
import { closeClientsAtExit, closeOnSignals, type EndingSignal, forgetSignals } from './close-on-signals';
import {
  type ClientOptions,
  connectChecks,
  type ConnectOptions,
  nativeOptions,
  readyChecks,
  type ReadyOptions,
} from './connect';
import { ClientEvents, followStates } from './events';
import { type Health, healthOf } from './health';
import { showAs } from './inspect';
import { KeepAlive } from './keep-alive';
import type { Lease } from './lease';
import type { Stats } from './stats';
import type { TraceHook } from './trace-hook';
import type { ClientState, LockSnapshot, RequestOptions } from './types';
import { checkNumber, checkOptions, checkString } from './validate';

/** The data of a node, as `client.get()` read it. */
export interface NodeData {
  /** The data. */
  readonly data: Buffer;
  /** How often the data was set: the `version` that a transaction expects. */
  readonly version: number;
}

/** How to close a client. */
export interface CloseOptions {
  /** For how long to wait until the client holds nothing, in ms; `Infinity` for as long as it takes. Default: 0. */
  drain?: number | undefined;
}

/** What the other classes need from a client. */
export interface ClientInternals {
  readonly native: NativeClient;
  /** For a pending acquire. */
  readonly keepAlive: KeepAlive;
  /** Who is told of its attempts and holds. */
  tracing: TraceHook | undefined;
}

let internals: (client: Client) => ClientInternals;

/** What clients do with locks. */
interface Requests {
  request(client: Client, path: string, ...args: never): Promise<unknown>;
  query(client: Client, path: string): Promise<LockSnapshot>;
}

let requests: Requests;

/** For `request.ts`, which uses this file, and so cannot be used by it. */
export function provideRequests(provided: Requests): void {
  requests = provided;
}

/**
 * A client of one ensemble: one ZooKeeper session after another, shared by all locks created on it.
 *
 * `new Client()` connects when it is first used, and `Client.connect()` at once. An `acquire()` without a time-out waits
 * for the connection as it waits for the lock, for as long as it takes; {@link Client.ready} and everything else fail when
 * no server answers within the connect time-out.
 *
 * A client does not keep the process alive by itself, but a pending `acquire()` does; see {@link Client.ref} and
 * {@link Client.unref}. Clients that are still open on the process's `exit` event are closed, within a second. A process
 * that is killed cannot close them: the server frees its locks after the session time-out.
 *
 * @example
 * const client = new Client(); // of ZKLOCK_HOSTS
 * console.log(client.state); // idle
 * await new Mutex(client, '/locks/report').using((lease) => console.log(client.state)); // connected
 * await client.close();
 */
export class Client extends ClientEvents {
  readonly #native: NativeClient;
  readonly #keepAlive = new KeepAlive();
  readonly #internals: ClientInternals;

  static {
    internals = (client) => client.#internals;
  }

  /**
   * A client that connects when it is first used. Sends nothing.
   *
   * @param hosts `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end. Default:
   *   the environment variable `ZKLOCK_HOSTS`, else `127.0.0.1:2181`.
   * @throws {@link BadArgumentError} if `hosts` or an option is malformed or out of range.
   */
  constructor(hosts?: string, options: ClientOptions = {}) {
    if (hosts !== undefined) checkString('hosts', hosts);
    const settings = nativeOptions(options);
    super();
    closeClientsAtExit();
    this.#native = withBridge((bridge) => new NativeClient(bridge, hosts, settings));
    this.#internals = { native: this.#native, keepAlive: this.#keepAlive, tracing: undefined };
    followStates(this, () => this.#native.states());
  }

  /**
   * Connects, and resolves once there is a session. If that fails, or `signal` aborts, nothing is left of the client.
   *
   * @param hosts as for the constructor.
   * @throws {@link ConnectionFailedError} if no server answers within the connect time-out.
   * @throws {@link AuthFailedError} if the server refuses the credentials.
   * @throws {@link BadArgumentError} if `hosts` or an option is malformed or out of range. Nothing is sent.
   * @throws the signal's reason if the signal aborts.
   *
   * @example
   * const signal = AbortSignal.timeout(5000);
   * const second = await Client.connect(undefined, { sessionTimeout: 5000, label: 'nightly', signal });
   * await second.close();
   */
  static async connect(hosts?: string, options: ConnectOptions = {}): Promise<Client> {
    checkOptions<ConnectOptions>(options, connectChecks);
    const { signal, ...rest } = options;
    const client = new Client(hosts, rest);
    try {
      await client.ready({ signal });
      return client;
    } catch (error) {
      // Not awaited, and it keeps no process alive: there may be no server to take leave of.
      watch((bridge) => client.#native.close(bridge), () => undefined);
      throw error;
    }
  }

  /**
   * Resolves once there is a session; connects if there is none. If that fails, the next use tries again.
   *
   * @throws {@link ConnectionFailedError} if there is none within the connect time-out.
   * @throws {@link AuthFailedError} if the server refuses the credentials.
   * @throws {@link ClientClosedError} once the client is closed.
   * @throws the signal's reason if the signal aborts.
   *
   * @example
   * const client = new Client();
   * await client.ready();
   * console.log(client.state); // connected
   * await client.close();
   */
  async ready(options: ReadyOptions = {}): Promise<void> {
    checkOptions<ReadyOptions>(options, readyChecks);
    await run<undefined>((bridge) => this.#native.ready(bridge), untilDone, options.signal);
  }

  /** Whether the client is connected to the ensemble. Sends nothing. */
  get state(): ClientState {
    return this.#native.state as ClientState;
  }

  /** The current ZooKeeper session; 0 before the first. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * The session time-out that the server granted, in ms; before the first session the one that the client asks for. A
   * server that has not heard from the client for so long frees its locks.
   */
  get sessionTimeout(): number {
    return this.#native.sessionTimeout;
  }

  /** The servers and the chroot, as a connect string: every server with its port. */
  get hosts(): string {
    return this.#native.hosts;
  }

  /**
   * What the client has done so far. Sends nothing, and works on a closed client too.
   *
   * @example
   * const { acquisitions, wait, requests } = client.stats();
   * console.log(acquisitions, wait.max, requests.create);
   */
  stats(): Stats {
    return this.#native.stats() as Stats;
  }

  /**
   * How the client is at this moment, and what in it waits and holds: for health checks, and for finding out what a
   * program that hangs waits for. Sends nothing, waits for no server, and works on a closed client too.
   *
   * @example
   * const { state, holds } = client.health();
   * console.log(state, holds.length); // connected 1
   */
  health(): Health {
    return healthOf(this.#native.health());
  }

  /**
   * Asks a contender to give up its lock, as Curator's `Revoker` does. A holder that listens, with `lease.onRevoke()`,
   * is notified, and may ignore it.
   *
   * @param node the full path of the contender's node, below the client's chroot: `contender.node` or `lease.node`.
   * @throws {@link NotHeldError} if the node does not exist.
   * @throws {@link BadArgumentError} if it is not the node of a contender.
   * @throws {@link AuthFailedError}, {@link ConnectionFailedError}, {@link ClientClosedError}.
   *
   * @example
   * lease.onRevoke(() => void lease.release());
   * await client.revoke(lease.node);
   */
  async revoke(node: string): Promise<void> {
    checkString('node', node);
    await run<undefined>((bridge) => this.#native.revoke(bridge, node), untilDone);
  }

  /**
   * Takes away a contender's lock, or its place in the queue, by deleting its node. For operators. A holder that is
   * connected learns of its loss within moments, but the next contender may be granted the lock before that.
   *
   * @param node as in `revoke()`.
   * @throws as `revoke()`.
   *
   * @example
   * const [holder] = await mutex.contenders();
   * if (holder !== undefined) await client.breakLock(holder.node);
   */
  async breakLock(node: string): Promise<void> {
    checkString('node', node);
    await run<undefined>((bridge) => this.#native.breakLock(bridge, node), untilDone);
  }

  /**
   * The data of a node and its version, or `null` if there is no node. Takes one round trip. The server may lag behind
   * others, so let a transaction check the version before it writes what depends on the answer.
   *
   * @param path an absolute path below the client's chroot.
   * @throws {@link BadArgumentError} if the path is malformed.
   * @throws {@link AuthFailedError}, {@link ConnectionFailedError}, {@link ClientClosedError}.
   *
   * @example
   * await lease.transaction().create('/report', 'draft').commit();
   * const found = await client.get('/report');
   * console.log(`${found?.data}, version ${found?.version}`); // draft, version 0
   */
  async get(path: string): Promise<NodeData | null> {
    checkString('path', path);
    return run<NodeData | null>((bridge) => this.#native.get(bridge, path), untilDone);
  }

  /**
   * Sets the number in a node that semaphores with this `sharedCount` have as permits, and creates the node if there is
   * none, in the form of Curator's `SharedCount`. Semaphores that wait learn of it; a smaller number takes no permit
   * away from those that hold one.
   *
   * @param path an absolute path below the client's chroot.
   * @throws {@link BadArgumentError} if the path is malformed, or the count is no whole number from 0 to 2,147,483,647.
   * @throws {@link ConnectionFailedError} if no answer came: the number may or may not have been set.
   * @throws {@link AuthFailedError}, {@link ClientClosedError}.
   *
   * @example
   * await client.setSharedCount('/settings/upstream', 5);
   * const slots = new Semaphore(client, '/locks/upstream', { sharedCount: '/settings/upstream' });
   */
  async setSharedCount(path: string, count: number): Promise<void> {
    checkString('path', path);
    checkNumber('count', count);
    await run<undefined>((bridge) => this.#native.setSharedCount(bridge, path, count), untilDone);
  }

  /**
   * Closes the client: its leases are lost, its pending acquires reject with `ClientClosedError`, and its session ends,
   * which deletes all its nodes. Resolves when the server has acknowledged it, or after two seconds. Does nothing on a
   * closed client.
   *
   * With `drain`, it first waits until the client holds nothing, for at most so many milliseconds: for a program that ends
   * in order. Meanwhile leases stay valid, and their owners may acquire again. Every other acquire rejects with
   * `ClientClosedError` at once, also one that waits already, and one of another lock inside a running scope. Called again,
   * the earlier end counts; a close without `drain` does not wait. Keeps the process alive. A scope that awaits it waits for
   * itself.
   *
   * @throws {@link BadArgumentError} if `drain` is negative or NaN.
   *
   * @example
   * // On SIGTERM: scopes that run get ten seconds to finish.
   * await client.close({ drain: 10_000 });
   * console.log(client.state); // closed
   */
  async close(options: CloseOptions = {}): Promise<void> {
    checkOptions<CloseOptions>(options, { drain: checkNumber });
    const start = (bridge: Bridge): number => {
      const id = this.#native.close(bridge, options.drain);
      this.#keepAlive.always = undefined;
      return id;
    };
    await run<undefined>(start, untilDone);
    forgetSignals(this);
  }

  /**
   * Frees the client's locks when the process gets one of these signals, and then lets the signal end the process, as it
   * would have without this. Node itself frees nothing on Ctrl-C (SIGINT) and SIGTERM: the locks would stay until the
   * session times out. All clients of the process are closed, within a second, and nothing else runs meanwhile.
   *
   * If the program has handlers of its own for the signal, they decide whether and how the process ends: then this client
   * is closed as by `close()`, and `lease.signal` aborts. Returns a function that undoes it, also at the end of a `using`
   * block; so does `close()`.
   *
   * @param signals any of SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGBREAK. Default: SIGINT and SIGTERM.
   * @throws {@link BadArgumentError} for any other signal, and in a worker thread, which no signal reaches.
   *
   * @example
   * const undo = client.closeOnSignals();
   * await mutex.using((lease) => console.log(lease.state)); // held
   * undo();
   */
  closeOnSignals(signals: Iterable<EndingSignal> = ['SIGINT', 'SIGTERM']): (() => void) & Disposable {
    return closeOnSignals(this, signals);
  }

  /**
   * Acquires a lock, calls `callback` with its lease, and releases it when the promise that it returns is settled: in the
   * manner of `navigator.locks.request()`, with a path in place of the name. Resolves or rejects as the callback does.
   *
   * It is a {@link ReadWriteLock}, whose read lock is the mode `shared`; a `Mutex` on the path excludes both modes. Unlike
   * the Web Locks API, a request inside the callback of another one for the same path does not wait for it, but belongs
   * to the same owner; and `callback` should stop when `lease.signal` aborts, as the lock can be lost.
   *
   * @throws the signal's reason if the signal aborts.
   * @throws {@link LockLostError} when the callback has ended, if the lock was lost meanwhile; see `Lock.using()`.
   * @throws {@link UpgradeRefusedError} if an exclusive lock is requested inside the callback for a shared one.
   * @throws {@link BadArgumentError} if the path or the mode is malformed, or `steal` is set.
   * @throws {@link ClientClosedError}, {@link ConnectionFailedError}, {@link AuthFailedError},
   *   {@link SequenceExhaustedError}.
   *
   * @example
   * const path = await client.request('/locks/report', { mode: 'shared' }, (lease) => lease.path);
   * console.log(path); // /locks/report
   * await mutex.acquire();
   * await client.request('/locks/report', { ifAvailable: true }, (lease) => console.log(lease)); // null
   */
  async request<T>(path: string, callback: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  async request<T>(
    path: string,
    options: RequestOptions & { ifAvailable?: false | undefined },
    callback: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T>;
  async request<T>(
    path: string,
    options: RequestOptions,
    callback: (lease: Lease | null) => T | PromiseLike<T>,
  ): Promise<T>;
  async request(path: string, ...args: unknown[]): Promise<unknown> {
    return requests.request(this, path, ...(args as never));
  }

  /**
   * Who holds a lock and who waits for it, in the manner of `navigator.locks.query()`, but for one path. They may be of
   * any program that uses the path. Takes as many round trips as {@link Lock.contenders}, which tells more.
   *
   * @throws {@link BadArgumentError} if the path is malformed.
   * @throws {@link AuthFailedError}, {@link ConnectionFailedError}, {@link ClientClosedError}.
   *
   * @example
   * await client.request('/locks/report', async () => {
   *   const { held, pending } = await client.query('/locks/report');
   *   console.log(held[0].mode, held[0].clientId === String(client.sessionId), pending.length); // exclusive true 0
   * });
   */
  async query(path: string): Promise<LockSnapshot> {
    return requests.query(this, path);
  }

  /**
   * Keeps the process alive until the client is closed, even while nothing is pending.
   *
   * @example
   * client.ref();
   */
  ref(): this {
    if (this.state !== 'closed') this.#keepAlive.always = true;
    return this;
  }

  /**
   * Lets the process exit, even while an `acquire()` on this client is pending.
   *
   * @example
   * client.unref();
   */
  unref(): this {
    this.#keepAlive.always = false;
    return this;
  }

  /**
   * Closes the client at the end of an `await using` block.
   *
   * @example
   * await using second = await Client.connect();
   * console.log(second.state); // connected
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

showAs(Client.prototype, 'Client', ({ hosts, state, sessionId }) => ({ hosts, state, sessionId }));

export { internals as clientInternals };
