/** The contenders for a lock. */

import { inspect } from 'node:util';

import { type NativeAbout, type NativeContender, type NativeOwnerInfo, shown } from '../addon';

/** What a contender that uses zklock says about its owner. */
export interface OwnerInfo {
  /** Its number, which no other owner of its process has, or had before it. */
  readonly number: number;
  /** Its name, if it has one: the first 64 bytes. */
  readonly name: string | undefined;
  /** A number that tells processes apart if they have the same host name and the same process id, as in containers. */
  readonly process: number;
}

/** What a contender that uses zklock says about itself. */
export interface ContenderInfo {
  /** The name of its host. */
  readonly host: string;
  /** Its process id. */
  readonly pid: number;
  /** Its language: `node`, `python` or `rust`. */
  readonly language: string;
  /** The label of its lock or client, if any. */
  readonly label: string | undefined;
  /** When it began to contend, by its own clock. */
  readonly since: Date;
  /** The owner inside its client: of Node, the outermost `using` scope in which it was asked for, or an acquire. */
  readonly owner: OwnerInfo | undefined;
  /** Whether it was asked to give up the lock while it held it, and has been told. */
  readonly revoked: boolean;
  /**
   * How many holds of its client may follow each other on the node before the queue gets its turn; `undefined` without the
   * option `cohort`. Its waiters without nodes are in no list.
   */
  readonly cohort: number | undefined;
  /**
   * For how many ms its client may keep the node after a release; `undefined` without the option `linger`. The node does
   * not tell whether somebody holds through it now.
   */
  readonly linger: number | undefined;
}

/** A contender in the queue of a lock, at the time of the call. Does not change. */
export interface Contender {
  /** Its place in the queue, from 0. The first one holds the lock; so do the readers or permits behind it that fit. */
  readonly position: number;
  /** The full path of its node, below the client's chroot: `client.revoke()` and `client.breakLock()` take it. */
  readonly node: string;
  /** Whether it is a reader. */
  readonly reader: boolean;
  /** The ZooKeeper session that owns the node. */
  readonly sessionId: bigint;
  /**
   * The zxid that created its node: the fencing token of its lease, now or when it is granted. Except after a downgrade:
   * the reader has a node of its own, but its lease keeps the writer's token.
   */
  readonly fencingToken: bigint;
  /** What it says about itself, if it uses zklock. */
  readonly about: ContenderInfo | undefined;
  /**
   * The data of its node, uninterpreted; empty if it was not read: what is longer than 4 KiB is not, nor what may not be
   * read, nor anything once 16 MiB were read for one list.
   */
  readonly data: Buffer;
  /** How many bytes of data its node has, read or not. */
  readonly dataLength: number;
}

// `console.log` would show what others wrote as it is, with everything that it does to a terminal.
const inspected = {
  value(this: Contender): object {
    const { node, about, ...rest } = this;
    if (about === undefined) return { node: shown(node), ...rest, about };
    const { host, language, label, owner, ...more } = about;
    const said = { host: shown(host), language: shown(language), label: label && shown(label), owner: owner && shownOwner(owner), ...more };
    return { node: shown(node), ...rest, about: said };
  },
};

// `JSON.stringify` refuses a bigint, and writes a buffer as a list of numbers.
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
