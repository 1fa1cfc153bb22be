// Tests of `cohort`: one scope hands the lock to the next scope.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';

import { Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, freshPath, scenario } from './support.mjs';

const place = ({ fencingToken, handoffs, node }) => ({ fencingToken, handoffs, node });

/** Waits until this number of attempts of a client wait. */
async function untilWaiting(client, count) {
  while (client.health().waits.length !== count) await setImmediate();
}

scenario('scopes hand the lock on without a request', async (context) => {
  const client = await connected(context);
  const lock = new Mutex(client, freshPath(), { cohort: 3 });
  const first = await lock.acquire();
  const seen = [place(first)];
  const before = client.stats().requests.create;
  const scopes = [];
  for (let count = 1; count <= 5; count++) {
    scopes.push(lock.using((lease) => seen.push(place(lease))));
    await untilWaiting(client, count);
  }
  // Other clients see one node for all waiting scopes. Only this client can tell the scopes apart.
  assert.deepEqual(
    client.health().waits.map(({ inCohort, node }) => [inCohort, node]),
    scopes.map(() => [true, undefined]),
  );
  for (const { about } of await lock.contenders()) {
    assert.deepEqual([about.cohort, about.linger, about.owner], [3, undefined, undefined]);
  }
  await first.release();
  await Promise.all(scopes);
  assert.deepEqual(
    seen.map(({ handoffs }) => handoffs),
    [0, 1, 2, 0, 1, 2],
  );
  assert.equal(new Set(seen.map(({ node }) => node)).size, 2);
  // One node serves the first waiters, and a second node serves the rest.
  assert.equal(client.stats().requests.create - before, 2);
  assert.equal(client.stats().handoffs, 4);
  assert.deepEqual(await lock.contenders(), []);
});

scenario('a waiter that gives up or is aborted is passed over', async (context) => {
  const client = await connected(context);
  const lock = new Mutex(client, freshPath(), { cohort: 64 });
  const first = await lock.acquire();
  const aborts = new AbortController();
  const aborted = lock.acquire({ signal: aborts.signal });
  const last = lock.acquire();
  await untilWaiting(client, 2);
  await assert.rejects(lock.acquire({ timeout: 50 }), { code: 'LOCK_TIMEOUT', reason: 'taken' });
  aborts.abort();
  await assert.rejects(aborted, { name: 'AbortError' });
  await untilWaiting(client, 1);
  await first.release();
  const lease = await last;
  assert.equal(lease.handoffs, 1);
  await lease.release();
});

scenario('a scope is handed the lock without a turn of the event loop', async (context) => {
  const client = await connected(context);
  const lock = new Mutex(client, freshPath(), { cohort: 64 });
  const first = await lock.acquire();
  let lease;
  const waiting = lock.acquire().then((acquired) => {
    lease = acquired;
  });
  await untilWaiting(client, 1);
  const released = first.release();
  // No other thread and no event loop iteration can run in between.
  for (let count = 0; count < 20; count++) await null;
  assert.equal(lease?.handoffs, 1);
  await Promise.all([released, waiting]);
  await lease.release();
});

scenario('writers hand the lock on', async (context) => {
  const client = await connected(context);
  const { readLock, writeLock } = new ReadWriteLock(client, freshPath(), { cohort: 64 });
  const first = await writeLock.acquire();
  const next = writeLock.using(({ handoffs }) => handoffs);
  await untilWaiting(client, 1);
  await first.release();
  assert.equal(await next, 1);
  assert.equal(await readLock.using(({ handoffs }) => handoffs), 0);
});

scenario('locks that cannot be handed on refuse the option', async (context) => {
  const client = await connected(context);
  const refused = { code: 'BAD_ARGUMENT', message: /^cohort: / };
  assert.throws(() => new Mutex(client, freshPath(), { cohort: 2, maxWaiters: 3 }), refused);
  for (const cohort of [-1, 1.5, 2 ** 40]) assert.throws(() => new Mutex(client, freshPath(), { cohort }), refused);
  const unknown = { code: 'BAD_ARGUMENT', message: /^options: there is no 'cohort'/ };
  assert.throws(() => new Semaphore(client, freshPath(), 2, { cohort: 2 }), unknown);
});
