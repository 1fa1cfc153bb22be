import { connect, type NativeClient } from '../native';

import { run, untilDone } from './bridge';
import { checkFunction, checkOurs, checkString, ours } from './check';
import { type ConnectOptions, nativeOptions } from './connect';
import { BadArgumentError } from './errors';
import { closeClientsAtExit } from './exit';
import { KeepAlive } from './keep-alive';
import { type ClientState, type StateListener, StateListeners } from './state';
import type { Stats } from './stats';

/** What the other classes need from a client. */
export interface ClientInternals {
  readonly native: NativeClient;
  /** For a pending acquire. */
  readonly keepAlive: KeepAlive;
}

let internals: (client: Client) => ClientInternals;

/**
 * A client of one ensemble: one ZooKeeper session after another, shared by all locks created on it.
 *
 * A client does not keep the process alive by itself, but a pending `acquire()` does; see {@link Client.ref} and
 * {@link Client.unref}. Clients that are still open on the process's `exit` event are closed, within a second. A process
 * that is killed cannot close them: the server frees its locks after the session time-out.
 *
 * @example
 * const client = await Client.connect(); // to ZKLOCK_HOSTS
 * console.log(client.state, client.sessionId);
 * await client.close();
 */
export class Client {
  readonly #native: NativeClient;
  readonly #keepAlive = new KeepAlive();
  readonly #listeners = new StateListeners();

  static {
    internals = (client) => ({ native: client.#native, keepAlive: client.#keepAlive });
  }

  private constructor(native: NativeClient, key: symbol) {
    checkOurs(key, 'call Client.connect() to create a client');
    this.#native = native;
  }

  /**
   * Connects, and resolves once there is a session.
   *
   * @param hosts `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end. Default:
   *   the environment variable `ZKLOCK_HOSTS`, else `127.0.0.1:2181`.
   * @throws {ConnectionFailedError} if no server answers within the connect time-out.
   * @throws {AuthFailedError} if the server refuses the credentials.
   * @throws {BadArgumentError} if `hosts` or an option is malformed or out of range. Nothing is sent.
   *
   * @example
   * const second = await Client.connect(undefined, { sessionTimeout: 5000, label: 'nightly' });
   * await second.close();
   */
  static async connect(hosts?: string, options: ConnectOptions = {}): Promise<Client> {
    if (hosts !== undefined) checkString('hosts', hosts);
    const settings = nativeOptions(options);
    closeClientsAtExit();
    const native = await run<NativeClient>((bridge) => connect(bridge, hosts, settings), untilDone);
    return new Client(native, ours);
  }

  /** Whether the client is connected to the ensemble. Sends nothing. */
  get state(): ClientState {
    return this.#native.state as ClientState;
  }

  /** The current ZooKeeper session. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * Calls `listener` with the new state on every change, until the client is `closed`. The state is that of the
   * connection; to learn of the loss of a lock, use `lease.signal`. Keeps neither the process alive nor the client
   * open.
   *
   * @throws {BadArgumentError} for any other event.
   *
   * @example
   * client.on('state', (state) => console.warn(`the client is ${state}`));
   */
  on(event: 'state', listener: StateListener): this {
    checkEvent(event);
    checkFunction('listener', listener);
    this.#listeners.add(listener, () => this.#native.states());
    return this;
  }

  /**
   * Removes a listener that `on()` added. Does nothing for any other function.
   *
   * @example
   * const listener = (state) => console.warn(`the client is ${state}`);
   * client.on('state', listener).off('state', listener);
   */
  off(event: 'state', listener: StateListener): this {
    checkEvent(event);
    this.#listeners.remove(listener);
    return this;
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
   * Asks a contender to give up its lock, as Curator's `Revoker` does. A holder that listens, with `lease.onRevoke()`,
   * is notified, and may ignore it.
   *
   * @param node the full path of the contender's node, below the client's chroot, as in `lease.node`.
   * @throws {NotHeldError} if the node does not exist.
   * @throws {BadArgumentError} if it is not the node of a contender.
   * @throws {AuthFailedError}, {@link ConnectionFailedError}, {@link ClientClosedError}.
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
   * if (holder !== undefined) await client.breakLock(`${mutex.path}/${holder.node}`);
   */
  async breakLock(node: string): Promise<void> {
    checkString('node', node);
    await run<undefined>((bridge) => this.#native.breakLock(bridge, node), untilDone);
  }

  /**
   * Closes the client: its leases are lost, its pending acquires reject with `ClientClosedError`, and its session ends,
   * which deletes all its nodes. Resolves when the server has acknowledged it, or after two seconds. Does nothing on a
   * closed client.
   *
   * @example
   * await client.close();
   * console.log(client.state); // closed
   */
  async close(): Promise<void> {
    this.#keepAlive.always = undefined;
    await run<undefined>((bridge) => this.#native.close(bridge), untilDone);
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

function checkEvent(event: string): void {
  if (event !== 'state') throw new BadArgumentError("event: must be 'state'");
}

export { internals as clientInternals };
