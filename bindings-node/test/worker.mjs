// A worker thread that takes a lock, and then does what it was told.

import { parentPort, workerData } from 'node:worker_threads';

import { Client, MultiLock, Mutex, Semaphore } from 'zklock';

const { hosts, path, then, several } = workerData;
const client = await Client.connect(hosts);
const mutex = new Mutex(client, path);
const lock = several ? new MultiLock([mutex, new Semaphore(client, `${path}/slots`, 1)]) : mutex;
parentPort.postMessage('connected');

if (then === 'churn') {
  for (;;) {
    await Promise.all([1, 2, 3].map(() => lock.using((held) => void held.signal)));
  }
}

const held = await lock.acquire();
parentPort.postMessage('granted');
if (then === 'release') await held.release();
if (then === 'exit') process.exit();
if (then === 'hold') await new Promise((resolve) => setTimeout(resolve, 60_000));
