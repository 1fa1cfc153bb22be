// Tests of `maxWaiters`: an acquire fails if too many waiters are queued.

import assert from 'node:assert/strict';

import { Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, freshPath, scenario, untilContenders } from './support.mjs';

const full = { code: 'LOCK_TIMEOUT', reason: 'full' };

scenario('one waiter too many is refused at once', async (context) => {
  const [holder, client] = [await connected(context), await connected(context)];
  const path = freshPath();
  const lease = await new Mutex(holder, path).acquire();
  const limited = (maxWaiters) => new Mutex(client, path, { maxWaiters });
  await assert.rejects(limited(0).acquire(), { ...full, message: /is full: it is taken, and no waiters are allowed/ });
  await assert.rejects(limited(0).acquire({ timeout: 60_000 }), full);
  assert.equal(await limited(0).tryAcquire(), null);
  const waiting = limited(1).acquire();
  await untilContenders(path, 2);
  await assert.rejects(limited(1).using(() => undefined), full);
  await lease.release();
  const next = await waiting;
  await limited(0).acquire({ within: next });
  for (const maxWaiters of [-1, 1.5, 2 ** 40]) {
    assert.throws(() => limited(maxWaiters), { code: 'BAD_ARGUMENT', message: /^maxWaiters: / });
  }
});

scenario('a limit of halves and of permits', async (context) => {
  const [holder, client] = [await connected(context), await connected(context)];
  const path = freshPath();
  await new ReadWriteLock(holder, `${path}/rw`).readLock.acquire();
  const { readLock, writeLock } = new ReadWriteLock(client, `${path}/rw`, { maxWaiters: 0 });
  await readLock.acquire();
  await assert.rejects(writeLock.acquire(), full);
  await new Semaphore(holder, `${path}/s`, 1).acquire();
  await assert.rejects(new Semaphore(client, `${path}/s`, 1, { maxWaiters: 0 }).acquire(), full);
});
