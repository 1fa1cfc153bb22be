// Tests of outcomes and events that arrive while the main thread is blocked. They are delivered
// together when it continues.

import assert from 'node:assert/strict';

import { freshPath, run, scenario, untilContenders } from './support.mjs';

// A program that holds lock `a` and waits for lock `b`, which another thread holds. Its main thread
// then blocks while the other thread runs `act` and releases `b`.
const program = (prepare, act) => `
  import { once } from 'node:events';
  import { Worker } from 'node:worker_threads';
  import { Client, Mutex } from 'zklock';

  const path = process.argv[1];
  const client = await Client.connect();
  const lease = await new Mutex(client, path + '/a').acquire();
  const blocked = new Int32Array(new SharedArrayBuffer(4));
  const controller = new AbortController();
  process.on('uncaughtException', (error) => console.log('uncaught', error.message));
  ${prepare}
  const other = new Worker(\`
    import('node:worker_threads').then(async ({ parentPort, workerData }) => {
      const { Client, dump, Mutex } = await import('zklock');
      const { path, blocked, node } = workerData;
      const client = await Client.connect();
      const mutex = new Mutex(client, path + '/b');
      const lease = await mutex.acquire();
      parentPort.postMessage('holding');
      while ((await mutex.contenders()).length < 2);
      const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
      // The client watches the node of a hold only after 200 ms.
      await pause(300);
      ${act}
      await lease.release();
      // The grant is the last message on the connection. The dump shows it, because it covers all clients of the process.
      while (!dump().includes('holds ' + path + '/b')) await pause(5);
      // The library's thread makes this round trip after it has delivered the grant.
      await mutex.contenders();
      Atomics.store(blocked, 0, 1);
      Atomics.notify(blocked, 0);
    });
  \`, { eval: true, execArgv: [], workerData: { path, blocked, node: lease.node } });
  await once(other, 'message');
  const waiting = new Mutex(client, path + '/b').acquire({ signal: controller.signal });
  Atomics.wait(blocked, 0, 0, 10_000);
  const granted = await waiting;
  console.log('granted', granted.state);
  await granted.release();
  await client.close();
`;

scenario('a grant is not lost on a caller that aborts because another lock is lost', async () => {
  const path = freshPath();
  const { code, stdout, stderr } = await run(
    program(
      `lease.signal.addEventListener('abort', () => { console.log('lost'); controller.abort(); });`,
      'await client.breakLock(node);',
    ),
    { args: [path] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'lost\ngranted held\n', '']);
  await untilContenders(path, 0);
});

scenario('a listener that throws does not stop the delivery of other events', async () => {
  const path = freshPath();
  const { code, stdout, stderr } = await run(
    program(`lease.onRevoke(() => { throw new Error('oops'); });`, 'await client.revoke(node);'),
    { args: [path] },
  );
  assert.deepEqual([code, stdout.trim().split('\n').sort(), stderr], [0, ['granted held', 'uncaught oops'], '']);
  await untilContenders(path, 0);
});
