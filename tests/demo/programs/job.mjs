// A job that only one process at a time runs, in Node: `node job.mjs PATH ROUNDS`. ZKLOCK_HOSTS names the servers.

import process from 'node:process';
import { setTimeout } from 'node:timers/promises';

import { Client, Mutex } from 'zklock';

/** Prints the time and an event. */
const say = (...words) => console.log(String(process.hrtime.bigint()), ...words.map(String));

const [path, rounds] = process.argv.slice(2);
const client = await Client.connect(undefined, { sessionTimeout: 2000 });
const lock = new Mutex(client, path);
for (let round = 0; round < Number(rounds); round++) {
  say('waits');
  await lock.using(async (lease) => {
    say('holds', lease.node, lease.fencingToken);
    await setTimeout(250 + 250 * Math.random()); // the work
    say('releases');
  });
}
await client.close();
