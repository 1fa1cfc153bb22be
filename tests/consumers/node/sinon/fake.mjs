// Replaces all timers with fake timers while the lock is held, and never restores them. The library
// must still work, and the process must exit by itself.

import sinon from 'sinon';
import { Client, Mutex } from 'zklock';
import { Server } from 'zklock/testing';

const server = await Server.start();
const client = (await Client.connect(server.hosts)).ref();
const mutex = new Mutex(client, '/locks/report');
const lease = await mutex.acquire();
const waiting = mutex.acquire();
const clock = sinon.useFakeTimers();

await lease.release();
const lost = await waiting;
const reports = [
  new Promise((resolve) => client.once('lost', resolve)),
  new Promise((resolve) => lost.signal.addEventListener('abort', resolve)),
];
await server.expire(client);
await Promise.all(reports);
console.log(lost.lossReason);
await client.close();
await server.stop();
console.log(Date.now() === clock.now ? 'still fake' : 'real');
