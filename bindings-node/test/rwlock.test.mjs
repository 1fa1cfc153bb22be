// Tests of read/write locks: shared holds, and acquiring one half while holding the other.

import assert from 'node:assert/strict';

import { LockTimeoutError, NotHeldError, ReadWriteLock, UpgradeRefusedError } from 'zklock';

import { connected, contenders, deleteNode, freshPath, scenario, sleep, until, untilContenders } from './support.mjs';

async function fresh(t) {
  const client = await connected(t);
  return new ReadWriteLock(client, freshPath());
}

scenario('readers hold together, a writer alone, and a late reader waits behind a waiting writer', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const first = await readLock.acquire();
  const second = await readLock.acquire();
  assert.notEqual(first.node, second.node);
  assert.equal(await writeLock.tryAcquire(), null);
  const order = [];
  const writing = writeLock.using(() => order.push('writer'));
  await untilContenders(path, 3);
  const reading = readLock.using(() => order.push('reader'));
  await untilContenders(path, 4);
  await assert.rejects(readLock.acquire({ timeout: 50 }), LockTimeoutError);
  await Promise.all([first.release(), second.release()]);
  await Promise.all([writing, reading]);
  assert.deepEqual(order, ['writer', 'reader']);
  await untilContenders(path, 0);
});

scenario('each half re-enters in its own scopes', async (t) => {
  const lock = await fresh(t);
  for (const half of [lock.readLock, lock.writeLock]) {
    await half.using(async (outer) => {
      const inner = await half.tryAcquire();
      assert.equal(inner.node, outer.node);
      await inner.release();
      await half.using((deeper) => assert.equal(deeper.node, outer.node));
      outer.check();
    });
  }
});

scenario('a read in a scope of the write lock downgrades, and outlives the scope', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const read = await writeLock.using(async (written) => {
    const lease = await readLock.acquire();
    assert.equal(lease.fencingToken, written.fencingToken);
    assert.notEqual(lease.node, written.node);
    return lease;
  });
  read.check();
  assert.deepEqual(await contenders(path), [read.node]);
  const beside = await readLock.tryAcquire();
  assert.notEqual(beside, null);
  assert.equal(await writeLock.tryAcquire(), null);
  await beside.release();
  await read.release();
  await untilContenders(path, 0);
});

scenario('no one gets in between during a downgrade', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const other = new ReadWriteLock(await connected(t), path);
  let rival;
  const read = await writeLock.using(async () => {
    rival = other.writeLock.acquire();
    await untilContenders(path, 2);
    // The owner gets the read lock ahead of the queued rival, even with `tryAcquire()`.
    return readLock.tryAcquire();
  });
  let granted = false;
  rival = rival.then((lease) => {
    granted = true;
    return lease;
  });
  await sleep(100);
  assert.equal(granted, false);
  read.check();
  await read.release();
  await (await rival).release();
});

scenario('a read that was started in a scope of the write lock downgrades, even if the scope ends immediately', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  for (let round = 0; round < 50; round += 1) {
    let asked;
    const token = await writeLock.using((written) => {
      asked = readLock.acquire();
      return written.fencingToken;
    });
    const read = await asked;
    assert.equal(read.fencingToken, token);
    await read.release();
  }
  await untilContenders(path, 0);
});

scenario('branches inside a scope of the write lock share one downgrade', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const leases = await writeLock.using(() => Promise.all([1, 2, 3].map(() => readLock.acquire())));
  assert.equal(new Set(leases.map((lease) => lease.node)).size, 1);
  for (const lease of leases) {
    lease.check();
    assert.deepEqual(await contenders(path), [lease.node]);
    assert.equal(await writeLock.tryAcquire(), null);
    await lease.release();
  }
  await untilContenders(path, 0);
  await (await writeLock.acquire({ timeout: 1000 })).release();
});

scenario('the write lock in a scope of the read lock is refused at once', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  await readLock.using(async (lease) => {
    await assert.rejects(writeLock.acquire(), UpgradeRefusedError);
    await assert.rejects(writeLock.tryAcquire(), { code: 'UPGRADE_REFUSED' });
    await assert.rejects(writeLock.using(() => assert.fail('not held')), UpgradeRefusedError);
    assert.deepEqual(await contenders(path), [lease.node]);
    lease.check();
  });
  await writeLock.using(() => undefined);
});

scenario("after a release of the write lock inside its scope, the scope's reader cannot upgrade", async (t) => {
  const { readLock, writeLock } = await fresh(t);
  await writeLock.using(async (written) => {
    const read = await readLock.acquire();
    await written.release();
    await assert.rejects(writeLock.acquire(), UpgradeRefusedError);
    await read.release();
    await (await writeLock.acquire({ timeout: 1000 })).release();
  });
});

scenario('a reader in the scope of its writer may acquire the write lock again', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  await writeLock.using(async (outer) => {
    await readLock.using(async () => {
      await writeLock.using((inner) => assert.equal(inner.node, outer.node));
    });
  });
  await untilContenders(path, 0);
});

scenario('outside scopes within names the owner, with a lease of either half', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const written = await writeLock.acquire();
  await assert.rejects(readLock.acquire({ timeout: 50 }), LockTimeoutError);
  const read = await readLock.acquire({ within: written });
  await written.release();
  await assert.rejects(writeLock.acquire({ within: read }), UpgradeRefusedError);
  const again = await readLock.acquire({ within: read });
  assert.equal(again.node, read.node);
  await read.release();
  again.check();
  await again.release();
  await assert.rejects(writeLock.acquire({ within: again }), NotHeldError);
  await untilContenders(path, 0);
});

scenario('a scope does not affect another client', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const other = new ReadWriteLock(await connected(t), path);
  await writeLock.using(async () => assert.equal(await other.readLock.tryAcquire(), null));
  await readLock.using(async () => assert.equal(await other.writeLock.tryAcquire(), null));
});

scenario('an attempt that is given up leaves no reader and no writer behind', async (t) => {
  const { path, readLock, writeLock } = await fresh(t);
  const reason = new Error('enough');
  for (const [held, wanted] of [
    [readLock, writeLock],
    [writeLock, readLock],
  ]) {
    const lease = await held.acquire();
    const controller = new AbortController();
    const waiting = wanted.acquire({ signal: controller.signal });
    await untilContenders(path, 2);
    controller.abort(reason);
    await assert.rejects(waiting, reason);
    await untilContenders(path, 1);
    await lease.release();
  }
});

scenario('a downgraded lease whose node is deleted is lost', async (t) => {
  const { readLock, writeLock } = await fresh(t);
  const read = await writeLock.using(() => readLock.acquire());
  await sleep(400);
  await deleteNode(read.node);
  await until('the loss', () => read.signal.aborted);
  assert.equal(read.signal.reason.code, 'LOCK_LOST');
  await read.release();
  await (await writeLock.acquire({ timeout: 1000 })).release();
});
