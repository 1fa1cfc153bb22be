/** Which `await using` blocks hold a lock, to name an acquire inside such a block that waits for it. */

import { AsyncLocalStorage } from 'node:async_hooks';

/** The lease of a block. */
interface Held {
  readonly path: string;
  readonly state: string;
}

/** A block. It does not keep its lease: a context may live for longer than the block, such as that of a timer. */
export interface Block {
  readonly lease: WeakRef<Held>;
  readonly client: object;
  readonly path: string;
  /** Whether the log has named a wait in it. */
  named: boolean;
  outer: Block | undefined;
}

const current = new AsyncLocalStorage<Block | undefined>();

let watched = false;

/**
 * Begins to note blocks, for a log that names waits. Not before somebody listens to the log: up to Node 22, a context costs
 * every promise of the process something.
 */
export function watchBlocks(): void {
  if (watched) return;
  watched = true;
  // Up to Node 22, contexts are kept apart from the first use of a store on, and the first block would be too late: what
  // runs beside it would count as inside.
  current.enterWith(current.getStore());
}

export function isOpenBlock({ lease }: Block): boolean {
  const state = lease.deref()?.state;
  return state === 'held' || state === 'suspended';
}

/** The innermost open one of a block and those around it. */
function open(block: Block | undefined): Block | undefined {
  while (block !== undefined && !isOpenBlock(block)) block = block.outer;
  return block;
}

/**
 * Notes that an `await using` block begins here. Only what runs in the block and what that starts are in its async context,
 * not the caller of the function that the block is in.
 */
export function enterBlock(lease: Held, client: object): void {
  if (!watched) return;
  current.enterWith({ lease: new WeakRef(lease), client, path: lease.path, named: false, outer: open(current.getStore()) });
}

/** The innermost open block around the caller that holds the lock at a path. Unlinks the blocks that have ended. */
export function innermostBlock({ client, path }: { client: object; path: string }): Block | undefined {
  for (let block = open(current.getStore()); block !== undefined; block = block.outer = open(block.outer)) {
    if (block.client === client && block.path === path) return block;
  }
  return undefined;
}

/** Calls a function outside of all blocks. */
export function outsideBlocks<T>(call: () => T): T {
  return current.run(undefined, call);
}
