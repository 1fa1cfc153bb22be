/** Who contends for a lock. */

import type { NativeContender } from '../native';

/** What zklock's contenders say of themselves. */
export interface ContenderInfo {
  /** The name of the host. */
  readonly host: string;
  /** The process. */
  readonly pid: number;
  /** The language of the program: `node`, `python` or `rust`. */
  readonly language: string;
  /** The label of its lock or client, if it has one. */
  readonly label: string | undefined;
  /** Since when it contends, by its own clock. */
  readonly since: Date;
}

/** One contender in the queue of a lock, as it was found there. Does not change. */
export interface Contender {
  /** Its place, from 0. The first holds; so do readers and permits behind it as far as there is room. */
  readonly position: number;
  /** Its node's name within the lock path. */
  readonly node: string;
  /** Whether it wants to hold together with other readers. */
  readonly reader: boolean;
  /** The ZooKeeper session that owns the node. */
  readonly sessionId: bigint;
  /** The fencing token that it has, or will have. */
  readonly fencingToken: bigint;
  /** What it says of itself, if it is one of zklock's. */
  readonly about: ContenderInfo | undefined;
  /** The node's data as it is, whoever wrote it. */
  readonly data: Buffer;
}

export function contenderOf({ about, ...rest }: NativeContender): Contender {
  if (about === undefined) return Object.freeze({ ...rest, about });
  const { host, pid, language, label, since } = about;
  return Object.freeze({ ...rest, about: Object.freeze({ host, pid, language, label, since: new Date(since) }) });
}
