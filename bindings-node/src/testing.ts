/// <reference lib="esnext.disposable" preserve="true" />

/**
 * A ZooKeeper server in memory, to test code that takes locks: **for tests and development only**. Production is Apache
 * ZooKeeper.
 *
 * All times are in milliseconds. In the examples, `server` is a running {@link Server}, `client` a client that is
 * connected to it, `mutex` a free mutex of that client at `/locks/report`, and `lease` a lease of another mutex.
 *
 * @module zklock/testing
 */

// First: it explains a native half that is missing, on which all the others would fail.
import './addon';

import { getSystemErrorName } from 'node:util';

import { type NativeServer, startServer } from '../addon';

import { BadArgumentError, native, raisedBelow } from './errors';
import { showAs } from './inspect';
import { KeepAlive } from './keep-alive';
import { type Checks, checkNumber, checkOptions, checkOurs, checkSession, ours } from './validate';

/** How to start a server. */
export interface ServerOptions {
  /** The port on which it listens, at 127.0.0.1. Default: 0, any free one. */
  port?: number | undefined;
}

/** Whose session: a client's, that of a lease or a contender, or the session with this id. */
type Session = bigint | { readonly sessionId: bigint };

const checks: Checks<ServerOptions> = { port: checkNumber };

const LARGEST_PORT = 0xffff;

/**
 * Those that run: one that nobody refers to any more still serves clients, which have only its address. The garbage
 * collector would end it under them.
 */
const running = new Set<Server>();

/**
 * A ZooKeeper server of one node in this process, in memory, on a thread of its own: **for tests and development only**.
 *
 * It speaks ZooKeeper's client protocol, with clients of any language and process on this machine, and does on command
 * what real servers do at the worst moment. Every method resolves when what it does is done; calls that are not awaited
 * take effect in their order.
 *
 * Like a server of `node:net`, it keeps the process alive until it is stopped, so that a test can wait for what the server
 * does to its client: stop it at the end of the test, or {@link Server.unref} it. A process that exits ends its servers,
 * and so does a worker thread with those that it started.
 *
 * Close its clients before you stop it: a client takes leave of its server, and waits for up to two seconds for one that
 * does not answer.
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
  /** The newest call, and so all of them. */
  #last: Promise<unknown> = Promise.resolve();
  #stopping: Promise<void> | undefined;

  protected constructor(native: NativeServer, keepAlive: KeepAlive, key: symbol) {
    checkOurs(key, 'start a server with Server.start()');
    this.#native = native;
    this.#keepAlive = keepAlive;
    running.add(this);
  }

  /**
   * Starts a server. When it resolves, clients can connect.
   *
   * @throws `Error` if it cannot listen; its `code` is the system's, such as `EADDRINUSE` for a port that is taken.
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
    // Here, where the caller is on the stack: jest names the line that opened what was left open.
    keepAlive.always = true;
    const { server, problem, errno } = await startServer(port);
    if (server !== undefined) return new Server(server, keepAlive, ours);
    keepAlive.always = false;
    throw cannotListen(port, problem ?? '', errno);
  }

  /** Where it listens, as a client takes it: `127.0.0.1:40000`. */
  get hosts(): string {
    return this.#native.hosts;
  }

  /**
   * Ends a session, as if its client had been silent for its time-out: when this resolves, its nodes are gone and its locks
   * free. The client learns of it when it has connected again, moments later, and begins a new session.
   *
   * @param session a client, or what has its session's id: a lease, a contender; or the id.
   * @returns whether there was such a session on this server.
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
   * Closes a client's connection. Its session lives on, and the client may connect again at once and keep its locks.
   *
   * @param session as in `expire()`.
   * @returns whether there was such a connection.
   * @throws as `expire()`.
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
   * Falls silent, as a server that hangs or is out of reach: connections stay open, but nothing is read, answered or sent,
   * and who connects hears nothing. Meanwhile no session expires. The controls still work.
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
   * Ends what `pause()` began: what arrived meanwhile is answered, and the time of the sessions goes on where it stood. Does
   * nothing without a pause.
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
   * From now on sends each reply and each event this much later, in their order: a round trip takes at least that long.
   *
   * @param delay in ms. 0 ends it; what is on its way keeps its delay.
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
   * All nodes but those of `/zookeeper`, in the order of their paths, with their data.
   *
   * @throws `Error` if the server was stopped.
   *
   * @example
   * await lease.transaction().create('/report', 'draft').commit();
   * const tree = await server.tree();
   * console.log(`${tree['/report']}`, lease.node in tree); // draft true
   */
  async tree(): Promise<Record<string, Buffer>> {
    // Copied: in a realm of its own, as test runners give to modules, the native half's `Object` is another one.
    return { ...(await this.#call(() => this.#native.tree())) };
  }

  /**
   * Ends the server: its port and all connections are closed, its nodes are gone. Does nothing on a server that was
   * stopped. A new one can listen on the same port.
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
   * Keeps the process alive until the server is stopped, as it does unless `unref()` was called.
   *
   * @example
   * server.unref().ref();
   */
  ref(): this {
    if (this.#stopping === undefined) this.#keepAlive.always = true;
    return this;
  }

  /**
   * Lets the process exit while the server runs.
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

  /** Calls the native half when it is done with the call before: each runs on a thread of libuv's, in no order. */
  async #call<T>(call: () => Promise<T>): Promise<T> {
    if (this.#stopping !== undefined) throw new Error('the server was stopped');
    const done = this.#last.then(() => native(call));
    this.#last = done.catch(() => undefined);
    try {
      return await done;
    } catch (error) {
      // The native half's error belongs to another realm, perhaps, and shows nothing of the caller.
      throw raisedBelow(error instanceof BadArgumentError ? error : new Error((error as Error).message), this.#call);
    }
  }
}

showAs(Server.prototype, 'Server', ({ hosts }) => ({ hosts }));

function idOf(session: Session): bigint {
  checkSession('session', session);
  const id = typeof session === 'bigint' ? session : session.sessionId;
  if (id === 0n) throw new BadArgumentError('session: there is none yet: the client has not connected');
  return id;
}

/** As the errors of `node:net` are. */
function cannotListen(port: number, problem: string, errno: number | undefined): Error {
  const error = new Error(`cannot listen on 127.0.0.1:${port}: ${problem}`);
  const code = errno === undefined ? undefined : getSystemErrorName(-errno);
  return Object.assign(error, { code, syscall: 'listen', address: '127.0.0.1', port });
}
