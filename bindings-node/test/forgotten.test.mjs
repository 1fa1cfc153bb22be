// Tests of leases that a program drops without releasing them. When the garbage collector collects
// such a lease, the library releases it and logs a warning, unless an election keeps the lease (it
// is *pinned*).

import assert from 'node:assert/strict';

import { Client, Election, Mutex, ReadWriteLock, Semaphore, off, on } from 'zklock';

import { connected, contenders, deleteNode, freshPath, hosts, run, scenario, until, untilContenders } from './support.mjs';

const RELEASED = 'lock released: nothing refers to its lease any more';

/** Collects the log's warnings until the test ends. */
function warnings(context) {
  const records = [];
  const listener = (record) => records.push(record);
  on('log', listener, { level: 'warn' });
  context.after(() => off('log', listener));
  return (path) => records.filter(({ fields }) => fields.path === path);
}

/** Calls `acquire` and drops the lease. Returns the result of `keep` for the lease. */
async function forget(acquire, keep = () => undefined) {
  return (async () => keep(await acquire()))();
}

/** Waits for a garbage collection: an unreferenced lease must be released. */
async function collect(context) {
  const mutex = new Mutex(await connected(context), freshPath());
  await forget(() => mutex.acquire());
  await until('a forgotten lease is collected', async () => {
    globalThis.gc();
    return (await contenders(mutex.path)).length === 0;
  });
}

scenario('a lease that is collected is released, and the log says so with its path and age', async (t) => {
  const [client, other, logged] = [await connected(t), await connected(t), warnings(t)];
  const mutex = new Mutex(client, freshPath());
  const node = await forget(() => mutex.acquire(), (lease) => lease.node);
  const next = new Mutex(other, mutex.path).acquire();
  await until('it is collected and released', () => (globalThis.gc(), client.health().holds.length === 0));
  await (await next).release();
  await until('a warning', () => logged(mutex.path).length > 0);
  const [{ level, message, fields }, ...more] = logged(mutex.path);
  assert.deepEqual([level, message, `${fields.path}/${fields.node}`, more], ['warn', RELEASED, node, []]);
  assert.ok(fields.lasted > 0, String(fields.lasted));
});

scenario('no warning for a lease that was released, lost, or not the last of its owner', async (t) => {
  const [client, logged] = [await connected(t), warnings(t)];
  const [released, lost, inner] = [1, 2, 3].map(() => new Mutex(client, freshPath()));
  await forget(async () => (await released.acquire()).release());
  await released.using(() => undefined);
  const node = await forget(() => lost.acquire(), (lease) => lease.node);
  await client.breakLock(node);
  await until('the loss', () => logged(lost.path).length > 0);
  const outer = await inner.acquire();
  await forget(() => inner.acquire({ within: outer }));
  await collect(t);
  assert.equal(outer.state, 'held');
  await outer.release();
  assert.deepEqual(logged(lost.path).map(({ message }) => message), ['lock lost']);
  assert.deepEqual([...logged(released.path), ...logged(inner.path)], []);
});

scenario('a lease whose signal was read is held until it is released or lost', async (t) => {
  const [client, logged, path] = [(await connected(t)).ref(), warnings(t), freshPath()];
  const mutex = new Mutex(client, path);
  const { signal, fencingToken } = await mutex.acquire();
  await collect(t);
  const [hold] = client.health().holds;
  assert.deepEqual([hold?.path, hold?.fencingToken, hold?.pinned], [path, fencingToken, true]);
  assert.equal(await new Mutex(await connected(t), path).tryAcquire(), null);
  const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  await client.breakLock(hold.node);
  await aborted;
  assert.equal(signal.reason.code, 'LOCK_LOST');
  await collect(t);
  await until('the loss in the log', () => logged(path).length > 0);
  // The loss also removes the pin.
  assert.deepEqual(logged(path).map(({ message }) => message), ['lock lost']);
  const again = await mutex.acquire();
  assert.equal(client.health().holds[0].pinned, false);
  assert.equal(again.signal.aborted, false);
  assert.equal(client.health().holds[0].pinned, true);
  const inner = await mutex.acquire({ within: again });
  await again.release();
  assert.deepEqual([client.health().holds[0].levels, client.health().holds[0].pinned], [1, false]);
  await inner.release();
  await untilContenders(path, 0);
});

scenario('the signal of several leases pins them all', async (t) => {
  const client = (await connected(t)).ref();
  const semaphore = new Semaphore(client, freshPath(), 2);
  const signal = await forget(() => semaphore.acquireMany(2), (leases) => leases.signal);
  await collect(t);
  assert.deepEqual(client.health().holds.map(({ pinned }) => pinned), [true, true]);
  const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  for (const node of await contenders(semaphore.path)) if (node.includes('/leases/')) await deleteNode(node);
  await aborted;
});

scenario('pinned leases are not kept after their end', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const ended = [];
  const registry = new FinalizationRegistry(() => ended.push(1));
  for (let turn = 0; turn < 100; turn++) {
    const lease = await mutex.acquire();
    registry.register(lease, turn);
    assert.equal(lease.signal.aborted, false);
    if (turn % 2) await lease.release();
    else await mutex.using({ within: lease }, () => lease.release());
  }
  await until('the leases are collected', () => (globalThis.gc(), ended.length >= 95));
});

scenario('listeners, transactions and properties other than the signal pin no lease', async (t) => {
  const [client, logged] = [await connected(t), warnings(t)];
  client.on('lost', () => undefined);
  const mutex = new Mutex(client, freshPath());
  const rest = await forget(
    () => mutex.acquire(),
    (lease) => [lease.onRevoke(() => undefined), lease.transaction(), lease.fencingToken, lease.toJSON(), String(lease)],
  );
  const forgotten = new ReadWriteLock(client, freshPath()).writeLock;
  void forgotten.using((lease) => (lease.check(), new Promise(() => undefined)));
  await until('both are collected', () => (globalThis.gc(), client.health().holds.length === 0));
  await until('two warnings', () => logged(mutex.path).length + logged(forgotten.path).length === 2);
  await assert.rejects(rest[1].create(`${mutex.path}-2`).commit());
});

scenario('an election that is kept continues to lead, and reports the loss', async (t) => {
  const [client, other, logged] = [(await connected(t)).ref(), await connected(t), warnings(t)];
  const election = new Election(client, freshPath());
  const lost = new Promise((resolve) => client.on('lost', resolve));
  const token = await forget(() => election.campaign(), (leadership) => leadership.fencingToken);
  // Each further campaign returns another lease of the same leadership. Only one lease is kept.
  for (let turn = 0; turn < 3; turn++) await forget(() => election.campaign());
  const next = new Election(other, election.path).campaign();
  await collect(t);
  await until('one is kept', () => (globalThis.gc(), client.health().holds[0]?.levels === 1));
  const [{ pinned, fencingToken, node }] = client.health().holds;
  assert.deepEqual([election.isLeader, pinned, fencingToken], [true, true, token]);
  await client.breakLock(node);
  assert.equal((await lost).path, election.path);
  assert.equal(election.isLeader, false);
  await (await next).resign();
  await until('the loss in the log', () => logged(election.path).length > 0);
  assert.deepEqual(logged(election.path).map(({ message }) => message), ['lock lost']);
});

scenario('an election continues to lead with another campaign when the first one resigns', async (t) => {
  const [client, logged] = [await connected(t), warnings(t)];
  const election = new Election(client, freshPath());
  const first = await election.campaign();
  const token = await (async () => {
    const second = await election.campaign();
    await first.resign();
    return second.fencingToken;
  })();
  await collect(t);
  assert.deepEqual([election.isLeader, client.health().holds[0]?.fencingToken], [true, token]);
  assert.deepEqual([client.health().holds[0].pinned, logged(election.path)], [true, []]);
});

scenario('an election that is dropped with its leadership resigns, with a warning', async (t) => {
  const [client, logged, path] = [await connected(t), warnings(t), freshPath()];
  await forget(() => new Election(client, path).campaign());
  await until('it is collected', () => (globalThis.gc(), client.health().holds.length === 0));
  await until('a warning', () => logged(path).length > 0);
  assert.deepEqual(logged(path).map(({ message }) => message), [RELEASED]);
});

scenario('the end of a worker thread and of the process causes no warning', async () => {
  const { code, stdout, stderr } = await run(
    `import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    import { Client, Mutex, on } from 'zklock';
    on('log', ({ message }) => console.log(message), { level: 'warn' });
    const source = \`const { Client, Mutex } = require('zklock');
      void (async () => {
        const client = await Client.connect();
        await new Mutex(client, process.argv[2] + '-worker').acquire();
        require('node:worker_threads').parentPort.postMessage('held');
        setInterval(() => undefined, 1000);
      })();\`;
    const worker = new Worker(source, { eval: true, execArgv: [], argv: [process.argv[1]] });
    await once(worker, 'message');
    await worker.terminate();
    const lease = await new Mutex(await Client.connect(), process.argv[1]).acquire();
    console.log(lease.state);`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'held\n', '']);
});

scenario('a client that is collected with its leases warns of each', async (t) => {
  const [logged, path] = [warnings(t), freshPath()];
  await forget(async () => {
    const client = await Client.connect(hosts);
    return [await new Mutex(client, path).acquire(), await new Mutex(client, `${path}-2`).acquire()];
  });
  await until('two warnings', () => (globalThis.gc(), logged(path).length + logged(`${path}-2`).length === 2));
});
