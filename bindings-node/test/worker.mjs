// A worker thread that takes a lock, and then does what it was told.

import { parentPort, workerData } from 'node:worker_threads';

import { Client, Mutex } from 'zklock';

const { hosts, path, then } = workerData;
const client = await Client.connect(hosts);
const mutex = new Mutex(client, path);
parentPort.postMessage('connected');

if (then === 'churn') {
  for (;;) {
    await Promise.all([1, 2, 3].map(() => mutex.using((lease) => void lease.signal)));
  }
}

const lease = await mutex.acquire();
parentPort.postMessage('granted');
if (then === 'release') await lease.release();
if (then === 'hold') await new Promise((resolve) => setTimeout(resolve, 60_000));
