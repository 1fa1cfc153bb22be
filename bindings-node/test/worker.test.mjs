// Tests of worker threads. Each has its own environment, but one library thread serves all of them.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Worker } from 'node:worker_threads';

import { Mutex, off, on, Semaphore } from 'zklock';

import { connected, contenders, deleteNode, freshPath, hosts, run, scenario, untilContenders } from './support.mjs';

const SOURCE = new URL('./worker.mjs', import.meta.url);

function start(path, then, several = false, cohort = 0) {
  return new Worker(SOURCE, { workerData: { hosts, path, then, several, cohort } });
}

async function message(worker) {
  const [text] = await once(worker, 'message');
  return text;
}

scenario('a worker takes turns with the main thread', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const worker = start(mutex.path, 'release');
  const exited = once(worker, 'exit');
  assert.equal(await message(worker), 'connected');
  await untilContenders(mutex.path, 2);
  const granted = message(worker);
  await lease.release();
  assert.equal(await granted, 'granted');
  assert.deepEqual(await exited, [0]);
  await (await mutex.acquire({ timeout: 5000 })).release();
});

scenario('a worker whose event loop is blocked delays no other one', async (t) => {
  const client = await connected(t);
  const gate = new SharedArrayBuffer(4);
  const workerData = { hosts, path: freshPath(), then: 'block', gate };
  const worker = new Worker(SOURCE, { workerData });
  const exited = once(worker, 'exit');
  await message(worker);
  assert.equal(await message(worker), 'granted');
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const { signal } = lease;
  const lost = once(signal, 'abort');
  await deleteNode(lease.node);
  await lost;
  await (await mutex.acquire()).release();
  Atomics.store(new Int32Array(gate), 0, 1);
  Atomics.notify(new Int32Array(gate), 0);
  assert.deepEqual(await exited, [0]);
});

scenario('a worker that is terminated while it holds frees the lock at once', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const worker = start(mutex.path, 'hold');
  await message(worker);
  assert.equal(await message(worker), 'granted');
  await worker.terminate();
  await untilContenders(mutex.path, 0);
});

scenario('a worker that is terminated while it waits leaves the queue', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const worker = start(mutex.path, 'hold');
  await message(worker);
  await untilContenders(mutex.path, 2);
  await worker.terminate();
  await untilContenders(mutex.path, 1);
  assert.deepEqual(await contenders(mutex.path), [lease.node]);
  lease.check();
  await lease.release();
});

scenario('several locks of a worker are freed with it, held or awaited', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const slots = new Semaphore(client, `${path}/slots`, 1);
  const permit = await slots.acquire();
  const waiting = start(path, 'hold', true);
  await message(waiting);
  // Wait for four nodes: our own, the worker's mutex node, and the worker's two semaphore nodes
  // (one in the queue, and one for its permit).
  await untilContenders(path, 4);
  await waiting.terminate();
  await untilContenders(path, 1);
  assert.deepEqual(await contenders(path), [permit.node]);
  await permit.release();
  const holding = start(path, 'hold', true);
  await message(holding);
  assert.equal(await message(holding), 'granted');
  await holding.terminate();
  await untilContenders(path, 0);
});

for (const [name, ending] of [
  ['ends by itself', 'end'],
  ['calls process.exit()', 'exit'],
]) {
  scenario(`a worker that ${name} while it holds frees the lock at once`, async (t) => {
    const mutex = new Mutex(await connected(t), freshPath());
    const worker = start(mutex.path, ending);
    const exited = once(worker, 'exit');
    await message(worker);
    assert.equal(await message(worker), 'granted');
    assert.deepEqual(await exited, [0]);
    await untilContenders(mutex.path, 0);
  });
}

scenario('a worker closes no clients but its own', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const worker = start(freshPath(), 'hold');
  await message(worker);
  assert.equal(await message(worker), 'granted');
  await worker.terminate();
  lease.check();
  await lease.release();
});

scenario('workers terminated at any moment leave nothing behind', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  for (let round = 0; round < 12; round++) {
    const worker = start(mutex.path, 'churn', round % 2 === 1);
    await message(worker);
    await new Promise((resolve) => setTimeout(resolve, round * 3));
    await worker.terminate();
  }
  await untilContenders(mutex.path, 0);
  await (await mutex.acquire({ timeout: 5000 })).release();
}, 60_000);

scenario('workers terminated while they hand a lock on leave nothing behind', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  for (let round = 0; round < 12; round++) {
    const worker = start(mutex.path, 'churn', false, 64);
    await message(worker);
    await new Promise((resolve) => setTimeout(resolve, round * 3));
    await worker.terminate();
  }
  await untilContenders(mutex.path, 0);
  await (await mutex.acquire({ timeout: 5000 })).release();
}, 60_000);

scenario('a worker that is terminated while it connects', async (t) => {
  // This port simulates a hung server: it accepts connections and never replies.
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const worker = new Worker(SOURCE, { workerData: { hosts: `127.0.0.1:${silent.address().port}`, path: '/unused' } });
  const [connection] = await once(silent, 'connection');
  const gone = once(connection.resume(), 'close');
  await worker.terminate();
  await gone;
  await (await new Mutex(await connected(t), freshPath()).acquire()).release();
});

scenario('a worker is terminated while its listeners receive events', async (t) => {
  const client = await connected(t);
  const listener = () => undefined;
  on('log', listener, { level: 'trace' });
  t.after(() => off('log', listener));
  // In the first two rounds, the event is in transit to the worker when the worker ends. In the
  // other rounds, either the event or the end of the worker can come first.
  const known = ['revoke', 'breakLock'];
  const raced = ['nothing', 'revoke', 'breakLock'];
  for (const [round, happens] of [...known, ...raced].entries()) {
    const mutex = new Mutex(client, freshPath());
    const worker = start(mutex.path, 'listen');
    let received = {};
    while (received.node === undefined) received = await message(worker);
    await untilContenders(mutex.path, 2);
    const happened = happens === 'nothing' ? undefined : client[happens](received.node);
    // The request can fail before the `await` below handles the error.
    happened?.catch(() => undefined);
    if (round < known.length) await happened;
    await worker.terminate();
    // When the worker ends, its session is closed and its node is deleted. The request of `client`
    // might therefore find no node.
    await happened?.catch((error) => assert.equal(error.code, 'NOT_HELD', error.stack));
    await untilContenders(mutex.path, 0);
    await (await mutex.acquire({ timeout: 5000 })).release();
  }
});

scenario('a process exits cleanly while its workers hold and wait', async () => {
  const path = freshPath();
  const { code, signal, stdout, stderr } = await run(
    `import { Worker } from 'node:worker_threads';
    import { once } from 'node:events';
    const start = () => new Worker(new URL(${JSON.stringify(SOURCE.href)}), {
      execArgv: [],
      workerData: { hosts: ${JSON.stringify(hosts)}, path: ${JSON.stringify(path)}, then: 'hold' },
    });
    const workers = [start(), start(), start()];
    await Promise.race(workers.map(async (worker) => {
      for (;;) if ((await once(worker, 'message'))[0] === 'granted') return;
    }));
    console.log('exit');
    process.exit(0);`,
  );
  assert.deepEqual([code, signal, stdout, stderr], [0, null, 'exit\n', '']);
  await untilContenders(path, 0);
});
