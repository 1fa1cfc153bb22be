import type { NativeConnectOptions } from '../addon';

import {
  bytesOf,
  checkBoolean,
  checkIterable,
  checkNames,
  checkNumber,
  checkObject,
  checkOptions,
  type Checks,
  checkSignal,
  checkString,
  type Names,
} from './validate';

/**
 * How to connect. Settings left out come from environment variables, as operators set them: `ZKLOCK_AUTH_FILE`,
 * `ZKLOCK_ACL`, `ZKLOCK_PARENT_ACL`, `ZKLOCK_TLS_CA` (with `ZKLOCK_TLS_CERT` and `ZKLOCK_TLS_KEY`; files in PEM, which are
 * read again whenever a connection is made) and `ZKLOCK_SESSION_TIMEOUT` (`10s`, or a number of seconds). An empty variable
 * counts as unset.
 */
export interface ConnectOptions {
  /**
   * The session time-out to request, in ms: the server frees the locks of a client from which it has not heard for this
   * long. The server may set another one. Default: that of the variable `ZKLOCK_SESSION_TIMEOUT`, or else 10 000.
   */
  sessionTimeout?: number | undefined;
  /** How long to wait for the first answer from any server, in ms. Default: 10 000. */
  connectTimeout?: number | undefined;
  /**
   * The largest reply to read, in bytes; lists may have a name for every 256 of them. A larger reply fails the request
   * that it answers, and no other: a lock directory with more children cannot be locked or looked at.
   * Default: 16 777 216.
   */
  maxFrame?: number | undefined;
  /**
   * Credentials to present to the servers; for the scheme `digest`, `user:password`. A server accepts any password of
   * that scheme: a wrong one only shows when a node refuses access.
   */
  auth?: readonly Credential[] | undefined;
  /**
   * A file of credentials, one a line: `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`. Default: that of the variable
   * `ZKLOCK_AUTH_FILE`, unless other credentials are given. A file that others than its owner can use is refused with
   * {@link BadArgumentError}. It is read once, when the client is created.
   */
  authFile?: string | undefined;
  /**
   * Who may do what with the nodes and lock directories that the client creates: `open`, the default, means everyone;
   * `creator` means clients that present the same credentials; or rules as in ZooKeeper's command line,
   * `digest:user:hash:cdrwa,world:anyone:r`. An operation that is not permitted rejects with `AuthFailedError`.
   */
  acl?: string | undefined;
  /**
   * The same for the parents of lock directories. Default: what `acl` says, and everyone may also read them and create
   * nodes there.
   */
  parentAcl?: string | undefined;
  /**
   * A user and password for SASL (DIGEST-MD5). If the server refuses them, `connect()` rejects with `AuthFailedError`.
   * In the rules of an `acl` the identity is then `sasl:user`, not `digest:user:hash`.
   */
  sasl?: Login | undefined;
  /**
   * Encrypts the connection to every server. Default: no encryption; credentials that go to another machine without it
   * are worth a warning in the log.
   */
  tls?: TlsOptions | undefined;
  /** A name for this client, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /** Whether the data of its nodes says who created them: host, process, language, label, time. Default: true. */
  identify?: boolean | undefined;
  /** Gives up connecting when it aborts. Only for `Client.connect()`; has no effect on the client that it returns. */
  signal?: AbortSignal | undefined;
}

/** How a client connects, for its constructor. */
export type ClientOptions = Omit<ConnectOptions, 'signal'>;

/** How long to wait for a session. */
export type ReadyOptions = Pick<ConnectOptions, 'signal'>;

/** A user and password for SASL. */
export interface Login {
  user: string;
  password: string;
}

/** What encryption needs, in PEM. */
export interface TlsOptions {
  /**
   * The certificates of the authorities to trust. A server's certificate must be for the name or address under which
   * the client reaches it.
   */
  ca: string | Uint8Array;
  /** The client's certificate, for servers that ask for one; needs `key`. */
  cert?: string | Uint8Array | undefined;
  /** Its private key. */
  key?: string | Uint8Array | undefined;
}

/** A credential of one of ZooKeeper's authentication schemes. */
export interface Credential {
  scheme: string;
  credential: string | Uint8Array;
}

const checks: Checks<ClientOptions> = {
  sessionTimeout: checkNumber,
  connectTimeout: checkNumber,
  maxFrame: checkNumber,
  auth: checkIterable,
  authFile: checkString,
  acl: checkString,
  parentAcl: checkString,
  sasl: checkObject,
  tls: checkObject,
  label: checkString,
  identify: checkBoolean,
};

/** What `Client.connect()` takes. */
export const connectChecks: Checks<ConnectOptions> = { ...checks, signal: checkSignal };

/** What `client.ready()` takes. */
export const readyChecks: Checks<ReadyOptions> = { signal: checkSignal };

const credentialNames: Names<Credential> = { scheme: true, credential: true };
const loginNames: Names<Login> = { user: true, password: true };
const tlsNames: Names<TlsOptions> = { ca: true, cert: true, key: true };

/** The options as the native half takes them: parts in order, credentials as bytes, certificates as text. */
export function nativeOptions(options: ClientOptions): NativeConnectOptions {
  checkOptions(options, checks);
  const { auth, sasl, tls, ...rest } = options;
  const parts = { auth: auth && Array.from(auth, credentialOf), sasl: sasl && loginOf(sasl), tls: tls && tlsOf(tls) };
  return { ...rest, ...parts } as NativeConnectOptions;
}

function credentialOf(given: Credential): [string, Uint8Array] {
  checkNames('auth', given, credentialNames);
  const { scheme, credential } = given;
  checkString('auth: scheme', scheme);
  return [scheme, bytesOf('auth: credential', credential)];
}

function loginOf(login: Login): [string, string] {
  checkNames('sasl', login, loginNames);
  const { user, password } = login;
  checkString('sasl: user', user);
  checkString('sasl: password', password);
  return [user, password];
}

function tlsOf(tls: TlsOptions): (string | undefined)[] {
  checkNames('tls', tls, tlsNames);
  const { ca, cert, key } = tls;
  const text = (name: string, pem: string | Uint8Array) => new TextDecoder().decode(bytesOf(`tls: ${name}`, pem));
  return [text('ca', ca), cert && text('cert', cert), key && text('key', key)];
}
