// The program in every bundle. It holds a lock until it reads a line of input, and releases it. Then it
// acquires the lock again, reads another line, and exits without releasing the lock.
//
//   node BUNDLE LOCK_PATH

import { createInterface } from 'node:readline';

import { Client, LockTimeoutError, Mutex } from 'zklock';

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function main() {
  const client = await Client.connect(undefined, { sessionTimeout: 30_000 }); // to ZKLOCK_HOSTS
  const mutex = new Mutex(client, process.argv[2]);

  const refused = await mutex.acquire({ timeout: 0 }).then(
    (lease) => lease.release(),
    (error) => error,
  );
  console.log(refused instanceof LockTimeoutError ? `taken: ${refused.name} ${refused.code}` : 'free');

  await mutex.using(async (lease) => {
    console.log(`holding, with token ${lease.fencingToken}`);
    await input.next();
  });
  console.log('released');

  await mutex.acquire();
  console.log('holding until it exits');
  await input.next();
  process.exit(0);
}

void main();
