// Tests of the library's log records.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

import { Client, Mutex, off, on } from 'zklock';

import { connected, deleteNode, freshPath, hosts, run, scenario, sleep, until } from './support.mjs';

// Number of events that are kept for a blocked thread, according to the documentation.
const CAPACITY = 1000;

/** Collects log records until the test ends. */
function listen(context, options) {
  const records = [];
  const listener = (record) => records.push(record);
  on('log', listener, options);
  context.after(() => off('log', listener));
  return records;
}

async function logged(records, path, message) {
  const wanted = (record) => record.message === message && record.fields.path === path;
  await until(`${message} ${path}`, () => records.some(wanted));
  return records.find(wanted);
}

scenario('an event says what happened, to what and when', async (t) => {
  const before = Date.now();
  const records = listen(t, { level: 'debug' });
  const lease = await new Mutex(await connected(t), freshPath()).acquire();
  const { path } = lease;
  const record = await logged(records, path, 'acquired');
  assert.equal(record.level, 'debug');
  assert.match(record.target, /^zklock::/);
  assert.equal(`${path}/${record.fields.node}`, lease.node);
  assert.ok(record.time instanceof Date && record.time >= before - 1 && record.time <= Date.now() + 1);
  await lease.release();
  await logged(records, path, 'no longer held');
});

scenario('listeners receive the levels that they requested', async (t) => {
  const [all, course, nothing] = [[], [], []];
  const listeners = [all, course, nothing].map((records) => (record) => records.push(record));
  on('log', listeners[0], { level: 'trace' });
  on('log', listeners[1]);
  on('log', listeners[2], { level: 'trace' });
  off('log', listeners[2]);
  t.after(() => listeners.forEach((listener) => off('log', listener)));
  const path = freshPath();
  const client = await connected(t);
  await (await new Mutex(client, path).acquire()).release();
  await logged(all, path, 'no longer held');
  assert.deepEqual(new Set(course.map(({ level }) => level)), new Set(['info']));
  assert.ok(all.some(({ level }) => level === 'trace'));
  assert.deepEqual(nothing, []);
});

scenario('a loss is a warning', async (t) => {
  const records = listen(t);
  const lease = await new Mutex(await connected(t), freshPath()).acquire();
  await deleteNode(lease.node);
  const { level, fields } = await logged(records, lease.path, 'lock lost');
  assert.deepEqual([level, fields.reason], ['warn', 'node deleted']);
});

scenario('a listener that throws is an uncaught exception, and the others are still called', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client, on } from 'zklock';
    process.on('uncaughtException', (error) => console.log(error.message));
    const heard = new Promise((resolve) => {
      on('log', () => { throw new Error('on purpose'); });
      on('log', resolve);
    });
    const client = await Client.connect();
    console.log((await heard).message);
    await client.close();`,
  );
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(stdout.trim().split('\n').sort(), ['on purpose', 'session established']);
});

scenario('a blocked thread keeps its locks, and the events that it misses are counted', async (t) => {
  const path = freshPath();
  const done = new Int32Array(new SharedArrayBuffer(4));
  const blocked = new Int32Array(new SharedArrayBuffer(4));
  const records = listen(t, { level: 'debug' });
  // The worker's locks cause a few events at first, and more than `CAPACITY` events while this
  // thread is blocked.
  const worker = new Worker(
    `const { workerData } = require('node:worker_threads');
    const { Client, Mutex } = require('zklock');
    void (async () => {
      const client = await Client.connect(workerData.hosts);
      const mutex = new Mutex(client, workerData.path);
      await (await mutex.acquire()).release();
      Atomics.wait(workerData.blocked, 0, 0);
      for (let turn = 0; turn < ${CAPACITY}; turn++) await (await mutex.acquire()).release();
      await client.close();
      Atomics.store(workerData.done, 0, 1);
      Atomics.notify(workerData.done, 0);
    })();`,
    { eval: true, workerData: { hosts, path, done, blocked } },
  );
  t.after(() => worker.terminate());
  const lease = await new Mutex(await connected(t, { sessionTimeout: 4000 }), freshPath()).acquire();
  await logged(records, path, 'acquired');
  const before = records.length;
  const term = performance.now() + 2500;
  Atomics.store(blocked, 0, 1);
  Atomics.notify(blocked, 0);
  assert.notEqual(Atomics.wait(done, 0, 0, 40_000), 'timed-out');
  // Block this thread so long that the lease would be lost if the library sent no further
  // heartbeats.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, term - performance.now()));
  lease.check();
  await once(worker, 'exit');
  await until('what was missed', () => records.some(({ fields }) => fields.dropped !== undefined));
  const missed = records.find(({ fields }) => fields.dropped !== undefined);
  assert.ok(records.indexOf(missed) <= before + CAPACITY);
  assert.ok(Number(missed.fields.dropped) > 0);
  await lease.release();
}, 60_000);

scenario('listening keeps no process alive, and ends with its thread', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client, Mutex, on } from 'zklock';
    import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    on('log', () => undefined, { level: 'trace' });
    const source = \`const { on } = require('zklock');
      on('log', () => undefined, { level: 'trace' });
      require('node:worker_threads').parentPort.postMessage('listening');\`;
    const client = await Client.connect();
    const mutex = new Mutex(client, process.argv[1]);
    for (let round = 0; round < 5; round++) {
      const worker = new Worker(source, { eval: true, execArgv: [] });
      await once(worker, 'message');
      const [lease] = await Promise.all([mutex.acquire(), worker.terminate()]);
      await lease.release();
    }
    await mutex.acquire();
    console.log('end');`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'end\n', '']);
});

scenario('every thread receives the events of the whole process', async (t) => {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
    const { on } = require('zklock');
    on('log', (record) => parentPort.postMessage(record.message));
    parentPort.postMessage('listening');
    // Listening alone does not keep a thread.
    setInterval(() => undefined, 1000);`,
    { eval: true },
  );
  t.after(() => worker.terminate());
  assert.deepEqual(await once(worker, 'message'), ['listening']);
  const message = once(worker, 'message');
  await (await Client.connect(hosts)).close();
  assert.deepEqual(await Promise.race([message, sleep(5000)]), ['session established']);
});

scenario('unknown events and levels, and listeners that are not functions, are refused', () => {
  assert.throws(() => on('lag', () => undefined), { code: 'BAD_ARGUMENT', message: /^event: / });
  assert.throws(() => off('lag', () => undefined), { code: 'BAD_ARGUMENT', message: /^event: / });
  assert.throws(() => on('log', () => undefined, { level: 'loud' }), { code: 'BAD_ARGUMENT', message: /^level: / });
  assert.throws(() => on('log', 'console'), TypeError);
  assert.throws(() => on('log', () => undefined, null), TypeError);
});

scenario('times are numbers, in ms, and other fields have their types', async (t) => {
  const records = listen(t, { level: 'debug' });
  const client = await connected(t);
  const before = performance.now();
  const lease = await new Mutex(client, freshPath()).acquire();
  await sleep(50);
  await lease.release();
  const acquired = await logged(records, lease.path, 'acquired');
  assert.equal(acquired.fields.contended, false);
  assert.ok(acquired.fields.waited > 0 && acquired.fields.waited < 10_000, String(acquired.fields.waited));
  const { fields } = await logged(records, lease.path, 'no longer held');
  assert.ok(fields.lasted >= 49 && fields.lasted <= performance.now() - before + 1, String(fields.lasted));
});
