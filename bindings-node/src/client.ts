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

/** The data of a node, as read by `client.get()`. */
export interface NodeData {
  /** The data. */
  readonly data: Buffer;
  /** Number of times that the data was set: the `version` that a transaction checks. */
  readonly version: number;
}

/** Options of {@link Client.close}. */
export interface CloseOptions {
  /** How long to wait until the client holds no lock, in ms; `Infinity` waits without a limit. Default: 0. */
  drain?: number | undefined;
}

/** The parts of a client that the other modules use. */
export interface ClientInternals {
  readonly native: NativeClient;
  /** Keeps the process alive while an acquire is pending. */
  readonly keepAlive: KeepAlive;
  /** The hook that receives the client's attempts and holds, if the client is traced. */
  tracing: TraceHook | undefined;
}

let internals: (client: Client) => ClientInternals;

/** The implementation of `client.request()` and `client.query()`. */
interface Requests {
  request(client: Client, path: string, ...args: never): Promise<unknown>;
  query(client: Client, path: string): Promise<LockSnapshot>;
}

let requests: Requests;

/** Receives the implementation from `web-locks.ts`. That module imports this file, so this file cannot import it. */
export function provideRequests(provided: Requests): void {
  requests = provided;
}

/**
 * A client of one ensemble. All locks created on it share its ZooKeeper session. When a session expires, the client
 * starts another one.
 *
 * `new Client()` connects when it is first used; `Client.connect()` connects immediately. An `acquire()` without a
 * timeout waits for the connection without a limit, as it waits for the lock. {@link Client.ready} and all other
 * operations fail if no server answers within the connect timeout.
 *
 * A client does not keep the process alive by itself, but a pending `acquire()` does; see {@link Client.ref} and {@link
 * Client.unref}. On the process's `exit` event, zklock closes all open clients, within a second. A process that is
 * killed cannot close its clients, so the server frees their locks after the session timeout.
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
   * Creates a client that connects when it is first used. Sends nothing.
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
   * Connects, and resolves once there is a session. If connecting fails or `signal` aborts, the client is closed.
   *
   * @param hosts as for the constructor.
   * @throws {@link ConnectionFailedError} if no server answers within the connect timeout.
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
      // Do not wait for the close, and do not keep the process alive for it, because there might be no server that
      // acknowledges it.
      watch((bridge) => client.#native.close(bridge), () => undefined);
      throw error;
    }
  }

  /**
   * Resolves once there is a session, and connects if there is none. If connecting fails, the next use tries again.
   *
   * @throws {@link ConnectionFailedError} if there is no session within the connect timeout.
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

  /** The state of the connection to the ensemble. Reading it sends nothing. */
  get state(): ClientState {
    return this.#native.state as ClientState;
  }

  /** The id of the current ZooKeeper session; 0 before the first session. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * The session timeout in ms: the value that the server granted, or the requested value before the first session. The
   * server frees the client's locks if it receives nothing from the client for this long.
   */
  get sessionTimeout(): number {
    return this.#native.sessionTimeout;
  }

  /** The servers and the chroot as a connect string. Every server has a port. */
  get hosts(): string {
    return this.#native.hosts;
  }

  /**
   * Returns statistics of everything the client has done so far. Sends nothing, and also works on a closed client.
   *
   * @example
   * const { acquisitions, wait, requests } = client.stats();
   * console.log(acquisitions, wait.max, requests.create);
   */
  stats(): Stats {
    return this.#native.stats() as Stats;
  }

  /**
   * Returns the current state of the client, with its pending acquires and the locks that it holds. Use it for health
   * checks, and to find out what a hanging program waits for. Sends nothing, waits for no server, and also works on a
   * closed client.
   *
   * @example
   * const { state, holds } = client.health();
   * console.log(state, holds.length); // connected 1
   */
  health(): Health {
    return healthOf(this.#native.health());
  }

  /**
   * Asks a contender to give up its lock, as Curator's `Revoker` does. A holder that registered `lease.onRevoke()` is
   * notified, and can ignore the request.
   *
   * @param node full path of the contender's node, below the client's chroot: `contender.node` or `lease.node`.
   * @throws {@link NotHeldError} if the node does not exist.
   * @throws {@link BadArgumentError} if the node is not a contender's node.
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
   * Takes away a contender's lock, or its position in the queue, by deleting its node. For operators. A connected
   * holder is notified of the loss almost immediately, but the next contender may be granted the lock before that.
   *
   * @param node as in `revoke()`.
   * @throws the same errors as `revoke()`.
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
   * Reads the data and the version of a node; resolves with `null` if the node does not exist. Takes one round trip.
   * The server may lag behind other servers: before you write something that depends on the result, let a transaction
   * check the version.
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
   * Sets the number of permits in a node that semaphores use as their `sharedCount`. Creates the node if it does not
   * exist, in the format of Curator's `SharedCount`. Waiting semaphores receive the new number. If it is smaller than
   * the number of permits that are held, the holders keep them.
   *
   * @param path an absolute path below the client's chroot.
   * @throws {@link BadArgumentError} if the path is malformed, or if the count is not a whole number from 0 to
   *   2,147,483,647.
   * @throws {@link ConnectionFailedError} if no reply arrived: the number may or may not have been set.
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
   * which deletes all its nodes. Resolves when the server has acknowledged the close, or after two seconds. Does
   * nothing on a closed client.
   *
   * With `drain`, the client first waits until it holds no lock, for at most that many milliseconds. Use it for an
   * orderly shutdown. Meanwhile leases stay valid, and their owners can acquire the same locks again. Every other
   * acquire rejects immediately with `ClientClosedError`: acquires that already wait, and acquires of another lock
   * inside a running scope. If `close()` is called more than once, the earliest deadline counts; a close without
   * `drain` does not wait. A pending close keeps the process alive. Do not await a draining close inside a scope,
   * because it would wait for the end of that scope.
   *
   * @throws {@link BadArgumentError} if `drain` is negative or NaN.
   *
   * @example
   * // On SIGTERM: running scopes get ten seconds to finish.
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
   * Frees the client's locks when the process receives one of these signals, and then lets the signal end the process
   * as usual. Otherwise, after Ctrl-C (SIGINT) and SIGTERM, the locks stay taken until the session times out. All
   * clients of the process are closed within a second, and no other code runs meanwhile.
   *
   * If the program has its own handlers for the signal, they decide whether and how the process ends. In this case the
   * client is closed as by `close()`, and `lease.signal` aborts. To remove the signal handling, call the returned
   * function, leave its `using` block, or close the client.
   *
   * @param signals any of SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGBREAK. Default: SIGINT and SIGTERM.
   * @throws {@link BadArgumentError} for any other signal, and in a worker thread, because signals do not reach it.
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
   * Acquires a lock, calls `callback` with the lease, and releases the lock when the returned promise settles. Works
   * like `navigator.locks.request()`, with a path instead of a name. Resolves or rejects as the callback does.
   *
   * The lock is a {@link ReadWriteLock}: the mode `shared` is its read lock. A `Mutex` on the same path excludes both
   * modes. There are two differences from the Web Locks API. A request inside the callback of another request for the
   * same path does not wait for it, but belongs to the same owner. The lock can also be lost, so `callback` should stop
   * when `lease.signal` aborts.
   *
   * @throws the signal's reason if the signal aborts.
   * @throws {@link LockLostError} after the callback has ended, if the lock was lost meanwhile; see `Lock.using()`.
   * @throws {@link UpgradeRefusedError} if the callback of a shared lock requests the exclusive lock.
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
   * Lists the holders and the waiters of a lock, like `navigator.locks.query()` but for one path. The list includes
   * every program that uses the path. Takes as many round trips as {@link Lock.contenders}, which returns more details.
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
   * Keeps the process alive until the client is closed, even while no operation is pending.
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
