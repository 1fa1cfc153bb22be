// Tests of `MultiLock` that apply only to Node.

import assert from 'node:assert/strict';

import { BadArgumentError, Leases, LockTimeoutError, MultiLock, Mutex, NotHeldError, ReadWriteLock, Semaphore } from 'zklock';

import { connected, deleteNode, freshPath, run, scenario, untilContenders } from './support.mjs';

scenario('all locks are acquired in the order of the paths, and released together', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const both = new ReadWriteLock(client, `${path}/b`);
  const all = new MultiLock([
    new Semaphore(client, `${path}/c`, 2),
    both.readLock,
    new Mutex(client, `${path}/a`),
    both.writeLock,
  ]);
  const order = ['a', 'b', 'b', 'c'].map((name) => `${path}/${name}`);
  assert.deepEqual(all.paths, order);
  const leases = await all.acquire();
  assert.ok(leases instanceof Leases);
  assert.deepEqual(
    leases.map((lease) => lease.path),
    order,
  );
  assert.equal(await all.tryAcquire(), null);
  await assert.rejects(all.acquire({ timeout: 50 }), LockTimeoutError);
  await leases.release();
  await untilContenders(path, 0);
});

scenario('inside its scope each of the locks, and all together, are entered again', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const a = new Mutex(client, `${path}/a`);
  const b = new Mutex(client, `${path}/b`);
  const all = new MultiLock([b, a]);
  await all.using(async (outer) => {
    for (const [index, lock] of [a, b].entries()) {
      const inner = await lock.tryAcquire();
      assert.equal(inner.node, outer[index].node);
      await inner.release();
    }
    await all.using({ timeout: 0 }, (inner) => {
      assert.deepEqual(
        inner.map((lease) => lease.node),
        outer.map((lease) => lease.node),
      );
    });
    outer.check();
  });
  assert.equal(await all.using(() => 42), 42);
  await untilContenders(path, 0);
});

scenario('nested scopes of single locks are re-entered by a multi-lock', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const [a, b, c] = ['a', 'b', 'c'].map((name) => new Mutex(client, `${path}/${name}`));
  await a.using((first) =>
    b.using(async (second) => {
      const leases = await new MultiLock([a, b, c]).acquire({ timeout: 0 });
      assert.deepEqual([leases[0].node, leases[1].node], [first.node, second.node]);
      await leases.release();
      first.check();
      second.check();
    }),
  );
  await b.using(async () => {
    await assert.rejects(new MultiLock([a, b]).acquire(), (error) => {
      assert.ok(error instanceof BadArgumentError);
      assert.match(error.message, /must be acquired before it/);
      return true;
    });
  });
  await untilContenders(path, 0);
});

scenario('within enters explicitly, and only with held leases of these locks', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const [a, b, c] = ['a', 'b', 'c'].map((name) => new Mutex(client, `${path}/${name}`));
  const all = new MultiLock([a, b]);
  const outer = await all.acquire();
  const inner = await all.acquire({ within: outer, timeout: 0 });
  assert.equal(inner[1].node, outer[1].node);
  await inner.release();
  const other = await c.acquire();
  await assert.rejects(all.acquire({ within: [other] }), /^BadArgumentError: within: /);
  await assert.rejects(all.acquire({ within: [3] }), TypeError);
  await assert.rejects(all.acquire({ within: 3 }), TypeError);
  await outer.release();
  await assert.rejects(all.acquire({ within: outer }), NotHeldError);
  await other.release();
});

scenario('locks of several clients, of which each pending one keeps the process alive', async (t) => {
  const path = freshPath();
  const lock = new Mutex(await connected(t), `${path}/b`);
  const lease = await lock.acquire();
  const program = run(
    `import { Client, Mutex, MultiLock } from 'zklock';
    const [path] = process.argv.slice(1);
    const clients = [await Client.connect(), await Client.connect()];
    clients[0].unref();
    const locks = clients.map((client, index) => new Mutex(client, path + '/' + 'ab'[index]));
    await new MultiLock(locks).using(async (leases) => {
      const inner = await locks[1].tryAcquire();
      console.log(leases.length, inner.node === leases[1].node, leases[0].sessionId === clients[0].sessionId);
    });`,
    { args: [path] },
  );
  await untilContenders(`${path}/b`, 2);
  await lease.release();
  const { code, stdout, stderr } = await program;
  assert.equal(stdout, '2 true true\n', stderr);
  assert.equal(code, 0);
  await untilContenders(path, 0);
});

scenario('an abort leaves all queues and releases what was acquired', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const [a, b] = ['a', 'b'].map((name) => new Mutex(client, `${path}/${name}`));
  const lease = await b.acquire();
  const controller = new AbortController();
  const waiting = new MultiLock([a, b]).acquire({ signal: controller.signal });
  await untilContenders(path, 3);
  controller.abort('enough');
  await assert.rejects(waiting, (reason) => reason === 'enough');
  await untilContenders(path, 1);
  lease.check();
  await lease.release();
});

scenario('a scope reports the loss of any of its locks, even if another one was released', async (t) => {
  const client = (await connected(t)).ref();
  const path = freshPath();
  const all = new MultiLock(['a', 'b'].map((name) => new Mutex(client, `${path}/${name}`)));
  const thrown = new Error('of the body');
  const body = (end) => async (leases) => {
    const aborted = new Promise((resolve) => leases.signal.addEventListener('abort', resolve, { once: true }));
    await deleteNode(leases[1].node);
    await aborted;
    await leases[0].release();
    end();
  };
  await assert.rejects(all.using(body(() => undefined)), { code: 'LOCK_LOST', reason: 'node deleted' });
  const fail = () => {
    throw thrown;
  };
  await assert.rejects(all.using(body(fail)), (error) => error === thrown && error.cause.code === 'LOCK_LOST');
  await untilContenders(path, 0);
});

scenario('wrong members are refused', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const mutex = new Mutex(client, path);
  for (const locks of [undefined, null, 3, mutex, [3], [null], [Object.create(null)], [new ReadWriteLock(client, path)]]) {
    assert.throws(() => new MultiLock(locks), /^TypeError: locks: must be /);
  }
  const elsewhere = new Mutex(await connected(t), path);
  const rigid = new Mutex(client, path, { reentrant: false });
  for (const locks of [[], [mutex, elsewhere], [rigid, rigid], [mutex, new Semaphore(client, path, 1)]]) {
    assert.throws(() => new MultiLock(locks), BadArgumentError);
  }
  assert.deepEqual(new MultiLock(new Set([mutex, new Mutex(client, path)])).paths, [path]);
  await assert.rejects(new MultiLock([mutex]).using(3), TypeError);
  await assert.rejects(new MultiLock([mutex]).acquire({ timeout: -1 }), BadArgumentError);
});
