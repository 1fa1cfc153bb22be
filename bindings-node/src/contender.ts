/** The contenders for a lock. */

import { inspect } from 'node:util';

import { type NativeAbout, type NativeContender, type NativeOwnerInfo, shown } from '../addon';

/** The owner that a contender's node data describes, if the contender uses zklock. */
export interface OwnerInfo {
  /** The owner's number: unique in its process, and never reused there. */
  readonly number: number;
  /** The owner's name, if it has one: at most the first 64 bytes. */
  readonly name: string | undefined;
  /** A number that distinguishes processes with the same host name and process id, as in containers. */
  readonly process: number;
}

/** The description that a contender that uses zklock stores in its node. */
export interface ContenderInfo {
  /** The host name. */
  readonly host: string;
  /** The process id. */
  readonly pid: number;
  /** The programming language: `node`, `python` or `rust`. */
  readonly language: string;
  /** The label of the contender's lock or client, if any. */
  readonly label: string | undefined;
  /** When the contender joined the queue, by its own clock. */
  readonly since: Date;
  /**
   * The owner inside the contender's client. In Node, an owner is the outermost `using` scope around the acquire, or
   * the acquire itself.
   */
  readonly owner: OwnerInfo | undefined;
  /** Whether the contender received a request to give up the lock while it held it. */
  readonly revoked: boolean;
  /**
   * The option `cohort` of its lock, or `undefined`: the maximum number of consecutive holds on the node before the
   * next node in the queue is granted. The client's other waiters have no nodes, and so do not appear in the list.
   */
  readonly cohort: number | undefined;
  /**
   * The option `linger` of its lock in ms, or `undefined`: the time for which its client can keep the node after a
   * release. The node does not show whether the lock is held, or the node is only kept.
   */
  readonly linger: number | undefined;
}

/** A contender in the queue of a lock, at the time of the call. Immutable. */
export interface Contender {
  /**
   * Position in the queue, from 0. The contender at 0 holds the lock. Readers and holders of permits at later positions
   * can hold it at the same time.
   */
  readonly position: number;
  /** Full path of the node, below the client's chroot, for `client.revoke()` and `client.breakLock()`. */
  readonly node: string;
  /** Whether the contender is a reader. */
  readonly reader: boolean;
  /** The ZooKeeper session that owns the node. */
  readonly sessionId: bigint;
  /**
   * The zxid that created the node. It is the fencing token of the contender's lease, now or once it is granted. The
   * exception is a writer that keeps only its read lock: it has a new node, but its lease keeps the writer's token.
   */
  readonly fencingToken: bigint;
  /** The contender's own description, if it uses zklock. */
  readonly about: ContenderInfo | undefined;
  /**
   * The raw data of the node; empty if it was not read. Data longer than 4 KiB is not read, nor is data without read
   * permission. One list reads at most 16 MiB in total.
   */
  readonly data: Buffer;
  /** Size of the node's data in bytes, whether or not it was read. */
  readonly dataLength: number;
}

// `console.log` would print text from other programs unescaped, including control sequences for the terminal.
const inspected = {
  value(this: Contender): object {
    const { node, about, ...rest } = this;
    if (about === undefined) return { node: shown(node), ...rest, about };
    const { host, language, label, owner, ...more } = about;
    const escaped = { host: shown(host), language: shown(language), label: label && shown(label), owner: owner && shownOwner(owner), ...more };
    return { node: shown(node), ...rest, about: escaped };
  },
};

// `JSON.stringify` rejects a bigint, and writes a buffer as a list of numbers.
const json = {
  value(this: Contender): object {
    const { sessionId, fencingToken, data, ...rest } = this;
    return { ...rest, sessionId: String(sessionId), fencingToken: String(fencingToken), data: data.toString('base64') };
  },
};

export function contenderOf({ about, ...rest }: NativeContender): Contender {
  const contender = { ...rest, about: about && infoOf(about) };
  Object.defineProperty(contender, inspect.custom, inspected);
  Object.defineProperty(contender, 'toJSON', json);
  return Object.freeze(contender);
}

function infoOf({ since, label, owner, cohort, linger, ...rest }: NativeAbout): ContenderInfo {
  return Object.freeze({ ...rest, label, since: new Date(since), owner: owner && ownerOf(owner), cohort, linger });
}

function ownerOf({ number, name, process }: NativeOwnerInfo): OwnerInfo {
  return Object.freeze({ number, name, process });
}

function shownOwner({ number, name, process }: OwnerInfo): OwnerInfo {
  return { number, name: name && shown(name), process };
}
