// Tests of AbortSignal: it can abort an acquire at any moment.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';

import { Mutex } from 'zklock';

import { connected, contenders, exists, freshPath, scenario, sleep, until, untilContenders } from './support.mjs';

const listeners = (signal) => getEventListeners(signal, 'abort').length;

scenario('a signal that is aborted already rejects with its reason, and nothing is sent', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const reason = new Error('enough');
  await assert.rejects(new Mutex(client, path).acquire({ signal: AbortSignal.abort(reason) }), reason);
  await client.close();
  assert.equal(await exists(path), false);
});

scenario('a signal that aborts in the same tick rejects with its reason', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const controller = new AbortController();
  const acquired = new Mutex(client, path).acquire({ signal: controller.signal });
  controller.abort('because');
  await assert.rejects(acquired, (reason) => reason === 'because');
  await untilContenders(path, 0);
});

scenario('an abort while waiting rejects at once and leaves the queue', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const controller = new AbortController();
  const waiting = mutex.acquire({ signal: controller.signal });
  await untilContenders(mutex.path, 2);
  const before = performance.now();
  controller.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.ok(performance.now() - before < 2000);
  await untilContenders(mutex.path, 1);
  assert.equal(lease.state, 'held');
  await lease.release();
});

scenario('AbortSignal.timeout rejects with its own TimeoutError', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  await mutex.using(async () => {
    const outside = new Mutex(await connected(t), mutex.path);
    await assert.rejects(outside.acquire({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  });
});

scenario('no listener stays on the signal, whatever the outcome', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const { signal } = new AbortController();
  const lease = await mutex.acquire({ signal });
  assert.equal(listeners(signal), 0);
  const waiting = mutex.acquire({ signal, timeout: 50 });
  assert.equal(listeners(signal), 1);
  await assert.rejects(waiting, { code: 'LOCK_TIMEOUT' });
  assert.equal(listeners(signal), 0);
  const controller = new AbortController();
  const aborted = mutex.acquire({ signal: controller.signal });
  controller.abort();
  await assert.rejects(aborted);
  assert.equal(listeners(controller.signal), 0);
  await lease.release();
});

scenario('an abort after the grant changes nothing', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const controller = new AbortController();
  const lease = await mutex.acquire({ signal: controller.signal });
  controller.abort();
  lease.check();
  assert.equal(lease.signal.aborted, false);
  await lease.release();
});

scenario('an abort that races the grant leaks no lease', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  let granted = 0;
  let aborted = 0;
  for (let round = 0; round < 200; round++) {
    const controller = new AbortController();
    const acquired = mutex.acquire({ signal: controller.signal });
    // Each round aborts at a different moment: from before the request is sent until after its
    // reply.
    if (round % 4 === 1) await sleep(0);
    if (round % 4 === 2) await sleep(1);
    if (round % 4 === 3) {
      // Block this thread, so that the outcome has arrived, but is not delivered yet, when the
      // signal aborts.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, round % 10);
    }
    controller.abort();
    await acquired.then(
      (lease) => {
        granted += 1;
        return lease.release();
      },
      (error) => {
        assert.equal(error.name, 'AbortError');
        aborted += 1;
      },
    );
  }
  assert.ok(aborted > 0);
  t.diagnostic(`${granted} granted, ${aborted} aborted`);
  await until('the lock is free', async () => (await contenders(mutex.path)).length === 0);
  const lease = await mutex.tryAcquire();
  assert.notEqual(lease, null);
  await lease.release();
}, 60_000);

scenario('any number of waiters share one listener on a signal, and an abort ends them all', async (t) => {
  const warnings = [];
  const warned = (warning) => warnings.push(warning.name);
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const controller = new AbortController();
  const { signal } = controller;
  const reason = new Error('enough');
  const waiting = Array.from({ length: 15 }, () => mutex.acquire({ signal }));
  await untilContenders(mutex.path, 16);
  assert.equal(listeners(signal), 1);
  // Waits that end normally do not remove the listener that the other waits need.
  await lease.release();
  await (await waiting.shift()).release();
  await (await waiting.shift()).release();
  const next = await waiting.shift();
  assert.equal(listeners(signal), 1);
  controller.abort(reason);
  for (const end of await Promise.allSettled(waiting)) assert.equal(end.reason, reason);
  assert.equal(listeners(signal), 0);
  await untilContenders(mutex.path, 1);
  await next.release();
  // Node delivers warnings later.
  await sleep(20);
  assert.deepEqual(warnings, []);
});
