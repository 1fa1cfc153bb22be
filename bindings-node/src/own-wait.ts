/** Names in the log an acquire that waits for the `await using` block that it is in. */

import { type Block, innermostBlock, isOpenBlock } from './blocks';
import { type Lease, nativeLease } from './lease';
import { clearTimeout, setTimeout } from './timers';

/** How long such a wait lasts before it is named, in ms. What the block started, and does not wait for, may wait rightly. */
const AFTER = 1000;

/** A lock that its owner may acquire again. */
interface Wanted {
  readonly client: object;
  readonly path: string;
  readonly reentrant: boolean;
}

function name(block: Block): void {
  const lease = block.lease.deref() as Lease | undefined;
  if (lease === undefined || block.named || !isOpenBlock(block)) return;
  block.named = true;
  nativeLease(lease).warnOfWaitInBlock();
}

/** The blocks around the caller that hold what it is about to acquire as a new owner. */
export function blocksAround(wanted: Iterable<Wanted>): Block[] {
  const found: Block[] = [];
  for (const lock of wanted) {
    const block = lock.reentrant ? innermostBlock(lock) : undefined;
    if (block !== undefined) found.push(block);
  }
  return found;
}

/** Awaits an attempt; once a block, names it if the attempt waits for long. */
export async function namingOwnWait<T>(blocks: readonly Block[], attempt: Promise<T>): Promise<T> {
  const timer = setTimeout(() => blocks.forEach(name), AFTER);
  // Whether the attempt keeps the process alive is its client's to say.
  timer.unref();
  try {
    return await attempt;
  } finally {
    clearTimeout(timer);
  }
}
