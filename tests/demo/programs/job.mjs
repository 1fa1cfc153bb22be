// Example job for `zklock demo`, in Node: `node job.mjs PATH ROUNDS`. Only one process at a time runs it. ZKLOCK_HOSTS
// names the servers.

import process from 'node:process';
import { setTimeout } from 'node:timers/promises';

import { Client, Mutex } from 'zklock';

const [path, rounds] = process.argv.slice(2);
const client = await Client.connect(undefined, { sessionTimeout: 2000 });
const lock = new Mutex(client, path);
for (let round = 0; round < Number(rounds); round++) {
  await lock.using(async () => {
    await setTimeout(250 + 250 * Math.random()); // the work
  });
}
await client.close();
