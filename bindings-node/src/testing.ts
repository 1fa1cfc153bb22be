/// <reference lib="esnext.disposable" preserve="true" />

/**
 * An in-memory ZooKeeper server for testing code that takes locks: **for tests and development only**. In production,
 * use Apache ZooKeeper.
 *
 * All times are in milliseconds. In the examples, `server` is a running {@link Server}, `client` is a client connected
 * to it, `mutex` is a free mutex of this client at `/locks/report`, and `lease` is a lease of another mutex.
 *
 * @module zklock/testing
 */

// This import must be first. If the native addon is missing, every module fails to load, but only this one reports the
// reason.
import './addon';

import { getSystemErrorName } from 'node:util';

import { type NativeServer, startServer } from '../addon';

import { BadArgumentError, native, trimStack } from './errors';
import { showAs } from './inspect';
import { KeepAlive } from './keep-alive';
import { type Checks, checkNumber, checkOptions, checkInternalKey, checkSession, internalKey } from './validate';

/** Options of {@link Server.start}. */
export interface ServerOptions {
  /** The port to listen on, at 127.0.0.1. Default: 0, which selects any free port. */
  port?: number | undefined;
}

/** Identifies a session: a client, a lease or a contender of the session, or the session's id. */
type Session = bigint | { readonly sessionId: bigint };

const checks: Checks<ServerOptions> = { port: checkNumber };

const LARGEST_PORT = 0xffff;

/**
 * The running servers. Without this reference, the garbage collector would end a server that the program no longer
 * refers to, although clients, which only have its address, still use it.
 */
const running = new Set<Server>();

/**
 * A single-node, in-memory ZooKeeper server in this process, on its own thread: **for tests and development only**.
 *
 * The server speaks ZooKeeper's client protocol, with clients in any language and any process on this machine. On
 * command, it simulates the failures of real servers. Every method resolves when its effect is complete. Calls that are
 * not awaited take effect in order.
 *
 * Like a server of `node:net`, it keeps the process alive until it is stopped, so that a test can wait for the server's
 * effect on a client. Stop it at the end of the test, or call {@link Server.unref}. When a process or a worker thread
 * exits, its servers end.
 *
 * Close the clients before you stop the server: a client that is being closed waits up to two seconds for the reply of
 * its server.
 *
 * @example
 * const server = await Server.start();
 * const client = await Client.connect(server.hosts);
 * await new Mutex(client, '/locks/report').using(async (lease) => {
 *   const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
 *   await server.expire(client);
 *   await lost;
 *   console.log(lease.lossReason); // session expired
 * }).catch((error) => console.log(error.code)); // LOCK_LOST
 * await client.close();
 * await server.stop();
 */
export class Server {
  readonly #native: NativeServer;
  readonly #keepAlive: KeepAlive;
  /** The newest call. It completes last, because calls run in order. */
  #last: Promise<unknown> = Promise.resolve();
  #stopping: Promise<void> | undefined;

  protected constructor(native: NativeServer, keepAlive: KeepAlive, key: symbol) {
    checkInternalKey(key, 'start a server with Server.start()');
    this.#native = native;
    this.#keepAlive = keepAlive;
    running.add(this);
  }

  /**
   * Starts a server. Clients can connect when the promise resolves.
   *
   * @throws `Error` if the server cannot listen. Its `code` is the system's, such as `EADDRINUSE` for a port in use.
   * @throws `BadArgumentError` if the port is not a whole number from 0 to 65,535.
   *
   * @example
   * const second = await Server.start({ port: 0 });
   * console.log(second.hosts !== server.hosts); // true
   * await second.stop();
   */
  static async start(options: ServerOptions = {}): Promise<Server> {
    checkOptions<ServerOptions>(options, checks);
    const { port = 0 } = options;
    if (!Number.isInteger(port) || port < 0 || port > LARGEST_PORT) {
      throw new BadArgumentError(`port: must be a whole number from 0 to ${LARGEST_PORT}, but is ${port}`);
    }
    const keepAlive = new KeepAlive();
    // Set this before the first `await`, while the caller is still on the stack, because jest reports the caller's line
    // as the one that opened the handle.
    keepAlive.always = true;
    const { server, problem, errno } = await startServer(port);
    if (server !== undefined) return new Server(server, keepAlive, internalKey);
    keepAlive.always = false;
    throw cannotListen(port, problem ?? '', errno);
  }

  /** The server's address in the form that clients take: `127.0.0.1:40000`. */
  get hosts(): string {
    return this.#native.hosts;
  }

  /**
   * Ends a session, as if its client had been silent for the session timeout. When the promise resolves, the session's
   * nodes are deleted and its locks are free. The client receives the expiry a moment later, when it reconnects, and
   * begins a new session.
   *
   * @param session a client, a lease, a contender, or a session id.
   * @returns whether this server had such a session.
   * @throws `BadArgumentError` for a client that has not connected yet.
   * @throws `Error` if the server was stopped.
   *
   * @example
   * const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
   * console.log(await server.expire(lease), await mutex.locked()); // true false
   * await lost;
   */
  async expire(session: Session): Promise<boolean> {
    const id = idOf(session);
    return this.#call(() => this.#native.expire(id));
  }

  /**
   * Closes a client's connection. The session continues: the client can reconnect immediately and keep its locks.
   *
   * @param session the session, as in `expire()`.
   * @returns whether this server had such a connection.
   * @throws the same errors as `expire()`.
   *
   * @example
   * await server.disconnect(client);
   * await mutex.using(() => console.log(lease.state)); // held
   */
  async disconnect(session: Session): Promise<boolean> {
    const id = idOf(session);
    return this.#call(() => this.#native.disconnect(id));
  }

  /**
   * Stops replying, like a server that hangs or is unreachable. Connections stay open, but the server reads, answers
   * and sends nothing, and new connections receive no reply. Meanwhile no session expires. The methods of this class
   * still work.
   *
   * @throws `Error` if the server was stopped.
   *
   * @example
   * await server.pause();
   * const late = client.get('/settings');
   * await server.resume();
   * console.log(await late); // null
   */
  async pause(): Promise<void> {
    await this.#call(() => this.#native.pause());
  }

  /**
   * Ends a pause. The server replies to the requests that arrived meanwhile, and the timeouts of the sessions continue
   * where they stopped. Does nothing without a pause.
   *
   * @throws `Error` if the server was stopped.
   *
   * @example
   * await server.pause();
   * await server.resume();
   */
  async resume(): Promise<void> {
    await this.#call(() => this.#native.resume());
  }

  /**
   * Delays every further reply and event by this time, in order. A round trip then takes at least this long.
   *
   * @param delay in ms. 0 ends the delay for further replies; replies that are already delayed keep their delay.
   * @throws `BadArgumentError` if the delay is negative or NaN.
   * @throws `Error` if the server was stopped.
   *
   * @example
   * await server.latency(50);
   * const start = Date.now();
   * await mutex.locked();
   * console.log(Date.now() - start >= 49); // true
   */
  async latency(delay: number): Promise<void> {
    checkNumber('delay', delay);
    await this.#call(() => this.#native.latency(delay));
  }

  /**
   * Returns all nodes except those of `/zookeeper`, ordered by path, with their data.
   *
   * @throws `Error` if the server was stopped.
   *
   * @example
   * await lease.transaction().create('/report', 'draft').commit();
   * const tree = await server.tree();
   * console.log(`${tree['/report']}`, lease.node in tree); // draft true
   */
  async tree(): Promise<Record<string, Buffer>> {
    // Copy the object, because test runners can load this module in a separate realm, where the addon's `Object` is
    // another class.
    return { ...(await this.#call(() => this.#native.tree())) };
  }

  /**
   * Stops the server. Closes its port and all connections, and discards its nodes. Does nothing on a stopped server.
   * Another server can then listen on the same port.
   *
   * @example
   * await client.close();
   * await server.stop();
   * console.log(await server.tree().catch((error) => error.message)); // the server was stopped
   */
  async stop(): Promise<void> {
    this.#stopping ??= this.#end();
    await this.#stopping;
  }

  /**
   * Keeps the process alive until the server is stopped. This is the default; it undoes `unref()`.
   *
   * @example
   * server.unref().ref();
   */
  ref(): this {
    if (this.#stopping === undefined) this.#keepAlive.always = true;
    return this;
  }

  /**
   * Lets the process exit while the server is running.
   *
   * @example
   * const shared = (await Server.start()).unref(); // for all tests of the file
   * await shared.stop();
   */
  unref(): this {
    this.#keepAlive.always = false;
    return this;
  }

  /**
   * Stops the server at the end of an `await using` block.
   *
   * @example
   * await using second = await Server.start();
   * console.log(await second.tree()); // [object Object]
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #end(): Promise<void> {
    const stopped = this.#call(() => this.#native.stop());
    try {
      await stopped;
    } finally {
      this.#keepAlive.always = false;
      running.delete(this);
    }
  }

  /**
   * Calls the native addon after the previous call has completed, because libuv's threads run calls in no particular
   * order.
   */
  async #call<T>(call: () => Promise<T>): Promise<T> {
    if (this.#stopping !== undefined) throw new Error('the server was stopped');
    const done = this.#last.then(() => native(call));
    this.#last = done.catch(() => undefined);
    try {
      return await done;
    } catch (error) {
      // The addon's error may belong to another realm, and its stack does not show the caller.
      throw trimStack(error instanceof BadArgumentError ? error : new Error((error as Error).message), this.#call);
    }
  }
}

showAs(Server.prototype, 'Server', ({ hosts }) => ({ hosts }));

function idOf(session: Session): bigint {
  checkSession('session', session);
  const id = typeof session === 'bigint' ? session : session.sessionId;
  if (id === 0n) throw new BadArgumentError('session: the client has not connected yet');
  return id;
}

/** Creates an error in the form of `node:net` errors. */
function cannotListen(port: number, problem: string, errno: number | undefined): Error {
  const error = new Error(`cannot listen on 127.0.0.1:${port}: ${problem}`);
  const code = errno === undefined ? undefined : getSystemErrorName(-errno);
  return Object.assign(error, { code, syscall: 'listen', address: '127.0.0.1', port });
}
