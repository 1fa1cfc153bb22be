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
 * Options of {@link Client.connect}. Options that are left out are read from environment variables that operators set:
 *
 * - `ZKLOCK_AUTH_FILE`, `ZKLOCK_ACL` and `ZKLOCK_PARENT_ACL`
 * - `ZKLOCK_TLS_CA`, with `ZKLOCK_TLS_CERT` and `ZKLOCK_TLS_KEY`: PEM files, which are read again for every connection
 * - `ZKLOCK_SESSION_TIMEOUT`: `10s`, or a number of seconds
 *
 * An empty variable counts as unset.
 */
export interface ConnectOptions {
  /**
   * The session timeout to request, in ms. The server frees a client's locks if it receives nothing from the client for
   * this long. The server may grant a different timeout. Default: the variable `ZKLOCK_SESSION_TIMEOUT`, or else
   * 10 000.
   */
  sessionTimeout?: number | undefined;
  /** The time limit for the first reply from any server, in ms. Default: 10 000. */
  connectTimeout?: number | undefined;
  /**
   * The size of the largest reply that the client reads, in bytes. A listing needs up to 256 bytes per name. If a reply
   * is larger, only its request fails: a lock directory whose listing exceeds this limit cannot be locked or listed.
   * Default: 16 777 216.
   */
  maxFrame?: number | undefined;
  /**
   * Credentials to present to the servers. For the scheme `digest`, the credential is `user:password`. A server accepts
   * any password of that scheme: a wrong password is noticed only when a node refuses access.
   */
  auth?: readonly Credential[] | undefined;
  /**
   * A file of credentials, one per line: `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`. The client reads it once, when
   * it is created. A file that users other than its owner can access is refused with {@link BadArgumentError}. Default:
   * the variable `ZKLOCK_AUTH_FILE`, unless other credentials are given.
   */
  authFile?: string | undefined;
  /**
   * The access rights of the nodes and lock directories that the client creates. `open`, the default, permits
   * everything to everyone; `creator` permits everything to clients with the same credentials. Or use rules as in
   * ZooKeeper's command line: `digest:user:hash:cdrwa,world:anyone:r`. An operation without permission rejects with
   * `AuthFailedError`.
   */
  acl?: string | undefined;
  /**
   * The access rights of the parents of lock directories. Default: the rights of `acl`, and everyone may also read the
   * parents and create nodes in them.
   */
  parentAcl?: string | undefined;
  /**
   * A user and password for SASL (DIGEST-MD5). If the server refuses them, `connect()` rejects with `AuthFailedError`.
   * With SASL, the identity in `acl` rules is `sasl:user` instead of `digest:user:hash`.
   */
  sasl?: Login | undefined;
  /**
   * Encrypts the connection to every server. Default: no encryption. Credentials that are sent unencrypted to another
   * machine cause a warning in the log.
   */
  tls?: TlsOptions | undefined;
  /** A name for this client, shown to operators in the data of its nodes. */
  label?: string | undefined;
  /** Whether the nodes' data identifies their creator: host, process, language, label and time. Default: true. */
  identify?: boolean | undefined;
  /** Gives up connecting when it aborts. Only for `Client.connect()`; has no effect once the client is connected. */
  signal?: AbortSignal | undefined;
}

/** Options of the {@link Client} constructor. */
export type ClientOptions = Omit<ConnectOptions, 'signal'>;

/** Options of {@link Client.ready}. */
export type ReadyOptions = Pick<ConnectOptions, 'signal'>;

/** A user and password for SASL. */
export interface Login {
  user: string;
  password: string;
}

/** Certificates and key for encryption, in PEM. */
export interface TlsOptions {
  /**
   * The certificates of the trusted authorities. A server's certificate must contain the name or address under which
   * the client reaches the server.
   */
  ca: string | Uint8Array;
  /** The client's certificate, for servers that ask for one. Requires `key`. */
  cert?: string | Uint8Array | undefined;
  /** The private key of `cert`. */
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

/** The checks for the options of `Client.connect()`. */
export const connectChecks: Checks<ConnectOptions> = { ...checks, signal: checkSignal };

/** The checks for the options of `client.ready()`. */
export const readyChecks: Checks<ReadyOptions> = { signal: checkSignal };

const credentialNames: Names<Credential> = { scheme: true, credential: true };
const loginNames: Names<Login> = { user: true, password: true };
const tlsNames: Names<TlsOptions> = { ca: true, cert: true, key: true };

/**
 * Checks the options and converts them to the form of the native addon: tuples, credentials as bytes, certificates as
 * text.
 */
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
