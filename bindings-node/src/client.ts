import { connect, type NativeClient, type NativeConnectOptions, type NativeCredential } from '../native';

import { run, untilDone } from './bridge';
import {
  bytesOf,
  checkFunction,
  checkIterable,
  checkNumber,
  checkObject,
  checkOptions,
  checkOurs,
  checkString,
  ours,
} from './check';
import { BadArgumentError } from './errors';
import { closeClientsAtExit } from './exit';
import { KeepAlive } from './keep-alive';
import { type ClientState, type StateListener, StateListeners } from './state';
import type { Stats } from './stats';

export interface ConnectOptions {
  /**
   * The session time-out to ask the server for, in ms: after this long without hearing from us it frees our
   * locks. The server may negotiate another. Default: 10 000.
   */
  sessionTimeout?: number | undefined;
  /** How long to wait for the first answer of any server, in ms. Default: 10 000. */
  connectTimeout?: number | undefined;
  /**
   * Credentials to show to the servers: for the scheme `digest` they are `user:password`. A server takes any password of
   * that scheme; a wrong one shows at the nodes.
   */
  auth?: readonly Credential[] | undefined;
  /**
   * Who may do what with the nodes that the client makes, parents too: `open` to everybody, the default; `creator`, for
   * whoever shows the same credentials; or rules as ZooKeeper's own command line takes them,
   * `digest:user:hash:cdrwa,world:anyone:r`. What is not permitted rejects with `AuthFailedError`.
   */
  acl?: string | undefined;
  /** A user and password for SASL's DIGEST-MD5. A server that refuses them rejects with `AuthFailedError`, at once. */
  sasl?: Login | undefined;
  /** Encrypts the connection to every server. Default: not. */
  tls?: TlsOptions | undefined;
  /** A name for this client, shown to operators in the data of its nodes. */
  label?: string | undefined;
}

export interface Login {
  user: string;
  password: string;
}

/** Encryption, with everything in PEM. */
export interface TlsOptions {
  /**
   * The certificates of the authorities that vouch for the servers. A server's certificate must be for the name or
   * address by which it is reached.
   */
  ca: string | Uint8Array;
  /** Our certificate, for servers that ask for one; with `key`. */
  cert?: string | Uint8Array | undefined;
  /** Its private key. */
  key?: string | Uint8Array | undefined;
}

export interface Credential {
  scheme: string;
  credential: string | Uint8Array;
}

/** What the other classes need of a client. */
export interface ClientInternals {
  readonly native: NativeClient;
  /** What a pending acquire uses. */
  readonly keepAlive: KeepAlive;
}

let internals: (client: Client) => ClientInternals;

/**
 * A client of one ensemble: one ZooKeeper session after another, shared by the locks made on it.
 *
 * Made by {@link Client.connect}. It does not keep the process alive by itself, but a pending `acquire()` does;
 * see {@link Client.ref} and {@link Client.unref}. Clients still open on the process's `exit` event are closed,
 * in at most a second. A process that is killed says nothing: its locks are freed after the session time-out.
 */
export class Client {
  readonly #native: NativeClient;
  readonly #keepAlive = new KeepAlive();
  readonly #listeners = new StateListeners();

  static {
    internals = (client) => ({ native: client.#native, keepAlive: client.#keepAlive });
  }

  private constructor(native: NativeClient, key: symbol) {
    checkOurs(key, 'a client is made by Client.connect()');
    this.#native = native;
  }

  /**
   * Connects, and resolves once there is a session.
   *
   * @param hosts `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end. Default:
   *   the environment variable `ZKLOCK_HOSTS`, else `127.0.0.1:2181`.
   * @throws {ConnectionFailedError} if no server answers within the connect time-out.
   * @throws {AuthFailedError} if the server refuses us.
   * @throws {BadArgumentError} for malformed hosts or a time-out out of its range, before anything is sent.
   */
  static async connect(hosts?: string, options: ConnectOptions = {}): Promise<Client> {
    if (hosts !== undefined) checkString('hosts', hosts);
    checkOptions(options, connectChecks);
    const { auth = [], tls, ...rest } = options;
    const settings = { ...rest, auth: auth.map(nativeCredential), tls: tls && nativeTls(tls) } as NativeConnectOptions;
    closeClientsAtExit();
    const native = await run<NativeClient>((bridge) => connect(bridge, hosts, settings), untilDone);
    return new Client(native, ours);
  }

  /** Whether the client is in touch with the ensemble. */
  get state(): ClientState {
    return this.#native.state as ClientState;
  }

  /** The current ZooKeeper session. */
  get sessionId(): bigint {
    return this.#native.sessionId;
  }

  /**
   * Calls `listener` with the new state whenever it changes, until it is `closed`. It tells of the connection, not of
   * locks: see `lease.signal` for those. Does not keep the process alive, nor the client open.
   *
   * @throws {BadArgumentError} for another event.
   */
  on(event: 'state', listener: StateListener): this {
    checkEvent(event);
    checkFunction('listener', listener);
    this.#listeners.add(listener, () => this.#native.states());
    return this;
  }

  /** Ends what `on()` began. Does nothing for a function that does not listen. */
  off(event: 'state', listener: StateListener): this {
    checkEvent(event);
    this.#listeners.remove(listener);
    return this;
  }

  /** What the client did since it was made. Sends nothing, and works for a closed client too. */
  stats(): Stats {
    return this.#native.stats() as Stats;
  }

  /**
   * Asks a contender to give its lock up, as Curator's `Revoker` does. The holder hears of it if it listens, as with
   * `lease.onRevoke()`, and does as it likes.
   *
   * @param node the full path of its node, below the client's chroot, as `lease.node` gives it.
   * @throws {NotHeldError} if there is no such node.
   * @throws {BadArgumentError} if it is not a contender's.
   * @throws {AuthFailedError}, {@link ConnectionFailedError}, {@link ClientClosedError}.
   */
  async revoke(node: string): Promise<void> {
    checkString('node', node);
    await run<undefined>((bridge) => this.#native.revoke(bridge, node), untilDone);
  }

  /**
   * Takes a contender's lock, or its place in the queue, away: deletes its node. For operators. A holder that is in
   * touch with the server learns of its loss within moments, but perhaps after the next one was granted the lock.
   *
   * @param node as for `revoke()`.
   * @throws as `revoke()`.
   */
  async breakLock(node: string): Promise<void> {
    checkString('node', node);
    await run<undefined>((bridge) => this.#native.breakLock(bridge, node), untilDone);
  }

  /**
   * Closes the client: its leases are lost, its waiters reject with `ClientClosedError`, its session ends, and
   * with it all its nodes. Resolves when the server has acknowledged it, or after two seconds. Closing again does
   * nothing.
   */
  async close(): Promise<void> {
    this.#keepAlive.always = undefined;
    await run<undefined>((bridge) => this.#native.close(bridge), untilDone);
  }

  /** Keeps the process alive until the client is closed, also while nothing is pending. */
  ref(): this {
    if (this.state !== 'closed') this.#keepAlive.always = true;
    return this;
  }

  /** Lets the process exit even while an `acquire()` on this client is pending. */
  unref(): this {
    this.#keepAlive.always = false;
    return this;
  }

  /** Closes the client at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function checkEvent(event: string): void {
  if (event !== 'state') throw new BadArgumentError("event: must be 'state'");
}

const connectChecks = {
  sessionTimeout: checkNumber,
  connectTimeout: checkNumber,
  auth: checkIterable,
  acl: checkString,
  sasl: checkLogin,
  tls: checkObject,
  label: checkString,
};

function checkLogin(name: string, value: unknown): void {
  checkObject(name, value);
  const { user, password } = value as Login;
  checkString('sasl: user', user);
  checkString('sasl: password', password);
}

/** The native half takes bytes. */
function nativeCredential({ scheme, credential }: Credential): NativeCredential {
  checkString('auth: scheme', scheme);
  return { scheme, credential: bytesOf('auth: credential', credential) };
}

/** The native half takes text. */
function nativeTls({ ca, cert, key }: TlsOptions): object {
  const text = (name: string, pem: string | Uint8Array) => new TextDecoder().decode(bytesOf(`tls: ${name}`, pem));
  return { ca: text('ca', ca), cert: cert && text('cert', cert), key: key && text('key', key) };
}

export { internals as clientInternals };
