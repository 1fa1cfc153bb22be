// Tests of `linger`: the client keeps a lock's node for a while.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';

import { Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, freshPath, scenario } from './support.mjs';

/** Longer than any of these tests runs. */
const LONG = 600_000;

const sent = (client) => Object.values(client.stats().requests).reduce((sum, count) => sum + count, 0);

/** Acquires a lock until that sends no request. Returns its fencing token. */
async function keep(client, lock) {
  for (;;) {
    const before = sent(client);
    const token = await lock.using(({ fencingToken }) => fencingToken);
    if (sent(client) === before) return token;
    await setImmediate();
  }
}

scenario('a lock is taken again without a request', async (context) => {
  const client = await connected(context);
  const path = freshPath();
  const lock = new Mutex(client, path, { linger: LONG });
  const token = await keep(client, lock);
  const [before, { retakes }] = [sent(client), client.stats()];
  const handoffs = [];
  for (let count = 0; count < 100; count++) {
    const lease = await lock.acquire();
    assert.equal(lease.fencingToken, token);
    handoffs.push(lease.handoffs);
    await lease.release();
  }
  assert.deepEqual(
    handoffs,
    handoffs.map((_, index) => handoffs[0] + index),
  );
  assert.equal(sent(client), before);
  assert.equal(client.stats().retakes - retakes, 100);
  // A new object with the same path uses the same kept node.
  assert.equal(await new Mutex(client, path, { linger: LONG }).using((lease) => lease.fencingToken), token);
  assert.deepEqual(client.health().holds, []);
  const [{ about }, ...others] = await lock.contenders();
  assert.deepEqual([about.linger, about.cohort, about.owner, others.length], [LONG, undefined, undefined, 0]);
  const plain = new Mutex(client, freshPath());
  const lease = await plain.acquire();
  const [contender] = await plain.contenders();
  assert.deepEqual([contender.about.linger, contender.about.cohort], [undefined, undefined]);
  await lease.release();
});

scenario('nested and concurrent scopes work as without the option', async (context) => {
  const client = await connected(context);
  const lock = new Mutex(client, freshPath(), { linger: LONG });
  const token = await keep(client, lock);
  const inner = await lock.using(() => lock.using(({ fencingToken }) => fencingToken));
  assert.equal(inner, token);
  let inside = 0;
  const work = async () => {
    assert.equal(++inside, 1);
    await setImmediate();
    inside--;
  };
  await Promise.all(Array.from({ length: 10 }, () => lock.using(work)));
});

scenario('a contender of another client gets it', async (context) => {
  const [client, other] = [await connected(context), await connected(context)];
  const path = freshPath();
  const lock = new Mutex(client, path, { linger: LONG });
  const token = await keep(client, lock);
  const theirs = new Mutex(other, path);
  assert.equal(await theirs.tryAcquire(), null);
  assert.ok((await theirs.using(({ fencingToken }) => fencingToken)) > token);
  assert.ok((await keep(client, lock)) > token);
});

scenario('both halves keep their nodes', async (context) => {
  const client = await connected(context);
  const { readLock, writeLock } = new ReadWriteLock(client, freshPath(), { linger: LONG });
  for (const half of [readLock, writeLock, readLock]) {
    const first = await half.using(({ fencingToken, handoffs }) => ({ fencingToken, handoffs }));
    const second = await half.using(({ fencingToken, handoffs }) => ({ fencingToken, handoffs }));
    assert.deepEqual(second, { ...first, handoffs: first.handoffs + 1 });
  }
});

scenario('invalid times are refused, and semaphores have no such option', async (context) => {
  const client = await connected(context);
  const refused = { code: 'BAD_ARGUMENT', message: /^linger: / };
  for (const linger of [-1, Number.NaN]) {
    assert.throws(() => new Mutex(client, freshPath(), { linger }), refused);
  }
  const unknown = { code: 'BAD_ARGUMENT', message: /^options: there is no 'linger'/ };
  assert.throws(() => new Semaphore(client, freshPath(), 2, { linger: 2 }), unknown);
});
