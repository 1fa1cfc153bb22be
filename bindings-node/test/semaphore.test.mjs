// Tests of semaphores that apply only to Node.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';

import { BadArgumentError, Leases, LockTimeoutError, NotHeldError, Semaphore } from 'zklock';

import {
  connected,
  contenders,
  createNode,
  deleteNode,
  exists,
  freshPath,
  run,
  scenario,
  sleep,
  until,
  untilContenders,
} from './support.mjs';

const untilLeases = (path, count) => untilContenders(`${path}/leases`, count);

scenario('permits have no owner: an acquire inside a scope takes another one', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 2);
  assert.equal(semaphore.permits, 2);
  await semaphore.using(async (outer) => {
    const inner = await semaphore.tryAcquire();
    assert.notEqual(inner.node, outer.node);
    assert.equal(await semaphore.tryAcquire(), null);
    await assert.rejects(semaphore.acquire({ timeout: 50 }), LockTimeoutError);
    await assert.rejects(semaphore.acquire({ within: outer }), /^BadArgumentError: within: /);
    await inner.release();
  });
  await untilContenders(semaphore.path, 0);
});

scenario('several permits are an array that does not change, and are released on their own or together', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 3);
  const leases = await semaphore.acquireMany(3, { timeout: 5000 });
  assert.ok(leases instanceof Leases);
  assert.ok(Array.isArray(leases));
  assert.ok(Object.isFrozen(leases));
  assert.equal(new Set(leases.map((lease) => lease.node)).size, 3);
  assert.equal(leases.filter(() => true).constructor, Array);
  assert.deepEqual(JSON.parse(JSON.stringify(leases)), leases.map((lease) => lease.toJSON()));
  leases.check();

  const [first, ...others] = leases;
  await first.release();
  assert.throws(() => leases.check(), NotHeldError);
  await untilContenders(semaphore.path, 2);
  await leases.release();
  await untilContenders(semaphore.path, 0);
  for (const lease of others) assert.throws(() => lease.check(), NotHeldError);
  await assert.rejects(leases.release(), NotHeldError);
  await leases[Symbol.asyncDispose]();

  const disposed = await semaphore.acquireMany(2);
  await disposed[Symbol.asyncDispose]();
  await untilContenders(semaphore.path, 0);
  const quick = await semaphore.acquireMany(2);
  await quick.release({ wait: false });
  await untilContenders(semaphore.path, 0);
});

scenario('too few free permits cause a LockTimeoutError, or null', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 2);
  const lease = await semaphore.acquire();
  await assert.rejects(semaphore.acquireMany(2, { timeout: 0 }), LockTimeoutError);
  await assert.rejects(semaphore.acquireMany(2, { timeout: 50 }), LockTimeoutError);
  await lease.release();
});

scenario('an abort while waiting for several permits gives all of them back', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 2);
  const lease = await semaphore.acquire();
  const controller = new AbortController();
  const waiting = semaphore.acquireMany(2, { signal: controller.signal });
  await untilLeases(semaphore.path, 3);
  controller.abort('enough');
  await assert.rejects(waiting, (reason) => reason === 'enough');
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
  await untilContenders(semaphore.path, 1);
  lease.check();
  await lease.release();
});

scenario('the signal of several leases aborts when the first is lost', async (t) => {
  const client = (await connected(t)).ref();
  const semaphore = new Semaphore(client, freshPath(), 2);
  const leases = await semaphore.acquireMany(2);
  const { signal } = leases;
  assert.equal(leases.signal, signal);
  const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  await deleteNode(leases[1].node);
  await aborted;
  assert.equal(signal.reason.code, 'LOCK_LOST');
  assert.throws(() => leases.check(), { code: 'LOCK_LOST' });
  leases[0].check();
  await leases.release();
  await untilContenders(semaphore.path, 0);
});

scenario('leases that are garbage collected are released', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 2);
  await (async () => void (await semaphore.acquireMany(2)).check())();
  await until('the leases are collected and released', async () => {
    globalThis.gc();
    return (await contenders(semaphore.path)).length === 0;
  });
});

scenario('wrong types are TypeErrors, wrong numbers BadArgumentErrors, before anything is sent', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  for (const permits of [undefined, null, '3', 3n, {}, { sharedCount: 3 }]) {
    assert.throws(() => new Semaphore(client, path, permits), TypeError);
  }
  for (const permits of [0, -1, 1.5, Number.NaN, Infinity, 2 ** 32, { sharedCount: 'relative' }]) {
    assert.throws(() => new Semaphore(client, path, permits), BadArgumentError);
  }
  assert.throws(() => new Semaphore(null, path, 1), TypeError);
  assert.throws(() => new Semaphore(client, path, 1, { label: 1 }), TypeError);
  const semaphore = new Semaphore(client, path, 3);
  await assert.rejects(semaphore.acquireMany('2'), TypeError);
  await assert.rejects(semaphore.acquireMany(2, null), TypeError);
  await assert.rejects(semaphore.acquireMany(2, { signal: 1 }), TypeError);
  for (const count of [0, -1, 1.5, Number.NaN, 4]) {
    await assert.rejects(semaphore.acquireMany(count), (error) => {
      assert.ok(error instanceof BadArgumentError);
      assert.match(error.message, /^count: /);
      return true;
    });
  }
  await assert.rejects(semaphore.acquireMany(1, { timeout: -1 }), BadArgumentError);
  assert.equal(await exists(path), false);
});

scenario('the number of permits may be read from a node', async (t) => {
  const number = freshPath();
  const semaphore = new Semaphore(await connected(t), freshPath(), { sharedCount: number });
  assert.deepEqual(semaphore.permits, { sharedCount: number });
  await assert.rejects(semaphore.acquire(), (error) => {
    assert.ok(error instanceof BadArgumentError);
    assert.ok(error.message.includes(number));
    return true;
  });
  await createNode(number, Buffer.from([0, 0, 0, 2]));
  const leases = await semaphore.acquireMany(2);
  assert.equal(await semaphore.tryAcquire(), null);
  await leases.release();
});

scenario('a pending acquire of several permits keeps the process alive', async (t) => {
  const semaphore = new Semaphore(await connected(t), freshPath(), 2);
  const lease = await semaphore.acquire();
  const program = run(
    `import { Client, Semaphore } from 'zklock';
    const semaphore = new Semaphore(await Client.connect(), process.argv[1], 2);
    const leases = await semaphore.acquireMany(2);
    console.log(leases.length);`,
    { args: [semaphore.path] },
  );
  await untilLeases(semaphore.path, 3);
  // If nothing kept the process alive, it would exit sooner than this.
  await sleep(100);
  await lease.release();
  const { code, stdout, stderr } = await program;
  assert.equal(stdout, '2\n', stderr);
  assert.equal(code, 0);
  await untilContenders(semaphore.path, 0);
});
