/** Logs a warning when an acquire waits for the `await using` block that contains it. */

import { type Block, innermostBlock, isOpenBlock } from './blocks';
import { type Lease, nativeLease } from './lease';
import { clearTimeout, setTimeout } from './timers';

/**
 * Delay in ms before such a wait is logged. A shorter wait can be legitimate: the block may have started the acquire
 * without awaiting it.
 */
const AFTER = 1000;

/** A lock that an acquire requests. */
interface Wanted {
  readonly client: object;
  readonly path: string;
  readonly reentrant: boolean;
}

function warn(block: Block): void {
  const lease = block.lease.deref() as Lease | undefined;
  if (lease === undefined || block.named || !isOpenBlock(block)) return;
  block.named = true;
  nativeLease(lease).warnOfWaitInBlock();
}

/** Returns the blocks around the caller that hold a lock that the caller is about to acquire as a new owner. */
export function blocksAround(wanted: Iterable<Wanted>): Block[] {
  const found: Block[] = [];
  for (const lock of wanted) {
    const block = lock.reentrant ? innermostBlock(lock) : undefined;
    if (block !== undefined) found.push(block);
  }
  return found;
}

/** Awaits an attempt. Logs a warning, once for each block, if the attempt takes long. */
export async function warnOfOwnWait<T>(blocks: readonly Block[], attempt: Promise<T>): Promise<T> {
  const timer = setTimeout(() => blocks.forEach(warn), AFTER);
  // The client decides whether the attempt keeps the process alive.
  timer.unref();
  try {
    return await attempt;
  } finally {
    clearTimeout(timer);
  }
}
