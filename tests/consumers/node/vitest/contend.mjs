// What both test files do at the same time. LOCK_PATH and SCRATCH come from whoever runs vitest.

import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Mutex } from 'zklock';

const { LOCK_PATH, SCRATCH } = process.env;

/** Takes part once both files have come here. Returns how often this one was inside. */
export async function contend(client, name, other) {
  writeFileSync(join(SCRATCH, name), '');
  while (!existsSync(join(SCRATCH, other))) await sleep(10);
  const mutex = new Mutex(client, LOCK_PATH);
  let times = 0;
  for (; times < 10; times += 1) {
    await mutex.using({ timeout: 30_000 }, async () => {
      // Fails if the other file is inside.
      writeFileSync(join(SCRATCH, 'inside'), '', { flag: 'wx' });
      await sleep(20);
      rmSync(join(SCRATCH, 'inside'));
    });
  }
  return times;
}
