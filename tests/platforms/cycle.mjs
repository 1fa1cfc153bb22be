// The life of a lock in a Node program: `cycle.mjs HOSTS PATH`. The test runs it with another platform's Node. The
// program ends while it holds the lock at PATH, so that the test can check that the lock is free then.
import assert from 'node:assert/strict';
import { argv, exit } from 'node:process';

import { Client, Mutex } from 'zklock';
import { Server } from 'zklock/testing';

const [hosts, path] = argv.slice(2);

const server = await Server.start();
const expiring = await Client.connect(server.hosts);
const lost = await new Mutex(expiring, path).acquire();
const aborted = new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
assert(await server.expire(expiring));
await aborted;
console.log('lost:', lost.lossReason);
await expiring.close();
await server.stop();

const client = await Client.connect(hosts);
const mutex = new Mutex(client, path);
const first = await mutex.acquire();
assert.equal(first.state, 'held');
await first.release();
const tokens = await Promise.all([mutex, new Mutex(client, path)].map((one) => one.using((lease) => lease.fencingToken)));
assert(tokens.every((token) => token > first.fencingToken));
await client.close();

const last = await new Mutex(await Client.connect(hosts), path).acquire();
console.log('holding', last.node);
exit(0);
