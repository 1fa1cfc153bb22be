// The code that both test files run at the same time. The caller of vitest sets LOCK_PATH and SCRATCH.

import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Mutex } from 'zklock';

const { LOCK_PATH, SCRATCH } = process.env;

/** Contends once both files have started. Returns how many times this file held the lock. */
export async function contend(client, name, other) {
  writeFileSync(join(SCRATCH, name), '');
  while (!existsSync(join(SCRATCH, other))) await sleep(10);
  const mutex = new Mutex(client, LOCK_PATH);
  let times = 0;
  for (; times < 10; times += 1) {
    await mutex.using({ timeout: 30_000 }, async () => {
      // Fails if the other file holds the lock.
      writeFileSync(join(SCRATCH, 'inside'), '', { flag: 'wx' });
      await sleep(20);
      rmSync(join(SCRATCH, 'inside'));
    });
  }
  return times;
}
