// Holds a lock and exits without releasing it. HOW selects the kind of exit.
//
//   RUNTIME ends.mjs PATH HOW

import { isMainThread, Worker, workerData } from 'node:worker_threads';

import { Client, Mutex } from 'zklock';

const [path, how] = isMainThread ? process.argv.slice(2) : workerData;
// The session timeout is longer than the test waits.
const client = await Client.connect(undefined, { sessionTimeout: 30_000 }); // to ZKLOCK_HOSTS
const hold = async () => (await new Mutex(client, path).acquire()).node;

const ways = {
  async exits() {
    await hold();
    console.log('held');
    process.exit(3);
  },
  async throws() {
    await hold();
    console.log('held');
    setTimeout(() => {
      throw new Error('on purpose');
    });
  },
  async signal() {
    client.closeOnSignals();
    await hold();
    setInterval(() => undefined, 1000);
    console.log('held');
  },
  async worker() {
    const worker = new Worker(new URL(import.meta.url), { workerData: [path, 'inside'] });
    await new Promise((resolve) => worker.once('message', resolve));
    console.log('held');
    await worker.terminate();
  },
  async inside() {
    const { parentPort } = await import('node:worker_threads');
    await hold();
    setInterval(() => undefined, 1000);
    parentPort.postMessage('held');
  },
  async collected() {
    await hold();
    console.log('held');
    const collect = globalThis.gc ?? (() => globalThis.Bun.gc(true));
    while (client.health().holds.length > 0) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await client.close();
  },
};

await ways[how]();
