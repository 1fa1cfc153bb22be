/** The contenders for a lock. */

import type { NativeContender } from '../native';

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
}

/** A contender in the queue of a lock, at the time of the call. Does not change. */
export interface Contender {
  /** Its place in the queue, from 0. The first one holds the lock; so do the readers or permits behind it that fit. */
  readonly position: number;
  /** The name of its node, below the lock path. */
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
  /** The data of its node, uninterpreted. */
  readonly data: Buffer;
}

export function contenderOf({ about, ...rest }: NativeContender): Contender {
  if (about === undefined) return Object.freeze({ ...rest, about });
  const { host, pid, language, label, since } = about;
  return Object.freeze({ ...rest, about: Object.freeze({ host, pid, language, label, since: new Date(since) }) });
}
