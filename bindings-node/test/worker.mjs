// Worker thread that acquires a lock and then runs the action that the test requests.

import { parentPort, workerData } from 'node:worker_threads';

import { Client, MultiLock, Mutex, on, Semaphore } from 'zklock';

const { hosts, path, then, several, cohort } = workerData;
if (then === 'listen') on('log', (record) => parentPort.postMessage(record.message), { level: 'trace' });
const client = await Client.connect(hosts);
const mutex = new Mutex(client, path, { cohort });
const lock = several ? new MultiLock([mutex, new Semaphore(client, `${path}/slots`, 1)]) : mutex;
parentPort.postMessage('connected');

if (then === 'churn') {
  for (;;) {
    await Promise.all([1, 2, 3].map(() => lock.using((held) => void held.signal)));
  }
}

const held = await lock.acquire();
parentPort.postMessage('granted');
if (then === 'listen') {
  held.signal.addEventListener('abort', () => parentPort.postMessage('lost'));
  held.onRevoke(() => parentPort.postMessage('revoked'));
  const waiting = mutex.acquire();
  parentPort.postMessage({ node: held.node });
  await waiting;
}
if (then === 'block') {
  Atomics.wait(new Int32Array(workerData.gate), 0, 0);
  await held.release();
}
if (then === 'release') await held.release();
if (then === 'exit') process.exit();
if (then === 'hold') await new Promise((resolve) => setTimeout(resolve, 60_000));
