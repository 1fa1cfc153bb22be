/**
 * Tracks which `await using` blocks hold a lock, so that the log can report an acquire that waits for the block around
 * it.
 */

import { AsyncLocalStorage } from 'node:async_hooks';

/** The lease of an `await using` block. */
interface Held {
  readonly path: string;
  readonly state: string;
}

/**
 * An `await using` block. Refers to its lease weakly, because an async context (such as a timer's) can outlive the
 * block.
 */
export interface Block {
  readonly lease: WeakRef<Held>;
  readonly client: object;
  readonly path: string;
  /** Whether the log has already reported a wait inside this block. */
  named: boolean;
  outer: Block | undefined;
}

const current = new AsyncLocalStorage<Block | undefined>();

let watched = false;

/**
 * Starts tracking blocks. Called when the first log listener is added, and not earlier, because up to Node 22 an async
 * context makes every promise of the process slower.
 */
export function watchBlocks(): void {
  if (watched) return;
  watched = true;
  // Up to Node 22, Node separates async contexts only after the first use of an `AsyncLocalStorage`, so use one now.
  // Otherwise code that runs concurrently with the first block would count as inside that block.
  current.enterWith(current.getStore());
}

export function isOpenBlock({ lease }: Block): boolean {
  const state = lease.deref()?.state;
  return state === 'held' || state === 'suspended';
}

/** Returns the innermost block that is still open: the given block, or one of the blocks around it. */
function open(block: Block | undefined): Block | undefined {
  while (block !== undefined && !isOpenBlock(block)) block = block.outer;
  return block;
}

/**
 * Records that an `await using` block begins here. The async context covers the code in the block and the operations
 * that this code starts. It does not cover the caller of the function that contains the block.
 */
export function enterBlock(lease: Held, client: object): void {
  if (!watched) return;
  current.enterWith({ lease: new WeakRef(lease), client, path: lease.path, named: false, outer: open(current.getStore()) });
}

/** Returns the innermost open block around the caller that holds the lock at a path. Unlinks blocks that have ended. */
export function innermostBlock({ client, path }: { client: object; path: string }): Block | undefined {
  for (let block = open(current.getStore()); block !== undefined; block = block.outer = open(block.outer)) {
    if (block.client === client && block.path === path) return block;
  }
  return undefined;
}

/** Calls a function outside all blocks. */
export function outsideBlocks<T>(call: () => T): T {
  return current.run(undefined, call);
}
