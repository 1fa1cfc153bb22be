// Tests of reentrance: only the owner of a hold can acquire the lock again.

import assert from 'node:assert/strict';

import { BadArgumentError, LockLostError, LockTimeoutError, Mutex, NotHeldError } from 'zklock';

import { connected, contenders, freshPath, scenario, sleep, until, untilContenders } from './support.mjs';

scenario('outside scopes every acquire is a new owner', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  assert.equal(await mutex.tryAcquire(), null);
  await assert.rejects(mutex.acquire({ timeout: 50 }), LockTimeoutError);
  await lease.release();
});

scenario('an acquire inside a scope re-enters, through any object on the path, in depth', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  await mutex.using(async (outer) => {
    const other = new Mutex(client, mutex.path);
    const inner = await other.tryAcquire();
    assert.equal(inner.node, outer.node);
    await inner.release();
    await other.using((deeper) => {
      assert.equal(deeper.node, outer.node);
    });
    assert.equal((await contenders(mutex.path)).length, 1);
    outer.check();
  });
  await untilContenders(mutex.path, 0);
});

scenario('the branches of a Promise.all inside a scope share it', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await mutex.using(async (outer) => {
    const nodes = await Promise.all(
      [1, 2, 3].map((milliseconds) =>
        mutex.using(async (inner) => {
          await sleep(milliseconds);
          return inner.node;
        }),
      ),
    );
    assert.deepEqual(new Set(nodes), new Set([outer.node]));
  });
});

scenario('scopes side by side are two owners', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  let inside = 0;
  const hold = () =>
    mutex.using(async () => {
      inside += 1;
      assert.equal(inside, 1);
      await sleep(5);
      inside -= 1;
    });
  await Promise.all([hold(), hold(), hold()]);
});

scenario('callbacks that outlive the scope are new owners, each of its own', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const callbacks = [];
  await mutex.using(() => {
    callbacks.push(sleep(30).then(() => mutex.tryAcquire()));
    callbacks.push(sleep(60).then(() => mutex.tryAcquire()));
  });
  const [first, second] = await Promise.all(callbacks);
  assert.notEqual(first, null);
  assert.equal(second, null);
  await first.release();
});

scenario('an acquire that was started in a scope re-enters, even if the scope ends immediately', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  for (let round = 0; round < 50; round += 1) {
    let asked;
    const node = await mutex.using((outer) => {
      asked = mutex.acquire();
      return outer.node;
    });
    const lease = await asked;
    assert.equal(lease.node, node);
    await lease.release();
  }
});

scenario('a callback that outlives an inner scope belongs to the outer one', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await mutex.using(async (outer) => {
    let later;
    await mutex.using(() => {
      later = sleep(20).then(() => mutex.tryAcquire());
    });
    const lease = await later;
    assert.equal(lease.node, outer.node);
    await lease.release();
  });
});

scenario('a scope on one path or client does not affect another', async (t) => {
  const client = await connected(t);
  const first = new Mutex(client, freshPath());
  const second = new Mutex(client, freshPath());
  const elsewhere = new Mutex(await connected(t), first.path);
  await first.using(async () => {
    assert.equal(await elsewhere.tryAcquire(), null);
    await second.using(async (lease) => {
      const again = await first.tryAcquire();
      assert.notEqual(again.node, lease.node);
      await again.release();
    });
  });
});

scenario('within re-enters explicitly, and only with a held lease of the same lock', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const other = new Mutex(client, freshPath());
  const elsewhere = new Mutex(await connected(t), mutex.path);
  const lease = await mutex.acquire();
  const inner = await mutex.acquire({ within: lease, timeout: 0 });
  assert.equal(inner.node, lease.node);
  await lease.release();
  inner.check();
  assert.equal(await mutex.tryAcquire(), null);
  await mutex.using({ within: inner }, (again) => {
    assert.equal(again.node, inner.node);
  });
  for (const foreign of [other, elsewhere]) {
    await assert.rejects(foreign.acquire({ within: inner }), (error) => {
      assert.ok(error instanceof BadArgumentError);
      assert.match(error.message, /^within: /);
      return true;
    });
  }
  await inner.release();
  await assert.rejects(mutex.acquire({ within: inner }), NotHeldError);
});

scenario('a mutex that does not re-enter waits inside its own scope', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath(), { reentrant: false });
  const reentrant = new Mutex(client, mutex.path);
  let later;
  await mutex.using(async (lease) => {
    await assert.rejects(mutex.acquire({ timeout: 50 }), LockTimeoutError);
    assert.equal(await mutex.tryAcquire(), null);
    // A reentrant lock object cannot re-enter this hold either, because the hold is not reentrant.
    assert.equal(await reentrant.tryAcquire(), null);
    await assert.rejects(mutex.acquire({ within: lease }), (error) => {
      assert.ok(error instanceof BadArgumentError);
      assert.match(error.message, /^within: /);
      return true;
    });
    later = mutex.acquire();
    await untilContenders(mutex.path, 2);
  });
  // Another owner releases the lease.
  await Promise.resolve(await later).then((lease) => lease.release());
  await reentrant.using(async () => assert.equal(await mutex.tryAcquire(), null));
  await untilContenders(mutex.path, 0);
});

scenario('using passes results and errors through, and releases', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  assert.equal(await mutex.using(() => 42), 42);
  assert.equal(await mutex.using({ timeout: 1000 }, async () => 'later'), 'later');
  const error = new Error('from the body');
  await assert.rejects(
    mutex.using(() => {
      throw error;
    }),
    error,
  );
  await mutex.using((lease) => lease.release());
  await untilContenders(mutex.path, 0);
});

scenario('a chain of scopes that start each other through callbacks does not grow', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const leases = [];
  // The timer is set inside a scope, so the next scope is nested in it.
  const last = await new Promise((resolve, reject) => {
    const round = async () => {
      await mutex.using((lease) => {
        leases.push(new WeakRef(lease));
        if (leases.length < 30) setTimeout(() => round().catch(reject), 0);
        else resolve(setTimeout(() => undefined, 60_000));
      });
    };
    round().catch(reject);
  });
  // The pending timer keeps the last scope alive.
  await until('the others are collected', () => {
    globalThis.gc();
    return leases.filter((lease) => lease.deref() !== undefined).length <= 3;
  });
  clearTimeout(last);
});

/**
 * Returns the result of a promise. Fails if the promise needs the event loop and not only
 * microtasks.
 */
async function soon(promise) {
  let settled = false;
  const settle = () => (settled = true);
  promise.then(settle, settle);
  for (let microtask = 0; microtask < 50; microtask++) await undefined;
  assert.ok(settled, 'waits for the event loop');
  return promise;
}

scenario('entering again does not wait for the event loop', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const again = await soon(mutex.acquire({ within: lease }));
  assert.equal(again.node, lease.node);
  await soon(again.release());
  await assert.rejects(again.release(), NotHeldError);
  await lease.release();
  await mutex.using(async (outer) => {
    assert.equal(await soon(mutex.using(({ node }) => node)), outer.node);
    assert.equal(await soon(mutex.using(async (inner) => mutex.using(() => inner.state))), 'held');
    assert.equal(await soon(mutex.tryUsing((inner) => inner.state)), 'held');
    const fail = () => {
      throw new RangeError('of the body');
    };
    await assert.rejects(soon(mutex.using(fail)), RangeError);
  });
  await untilContenders(mutex.path, 0);
});

scenario('the lease of a re-entry keeps its properties after its release', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const kept = [];
  await mutex.using(async (outer) => {
    const keep = (lease) => void kept.push(lease);
    await mutex.using(keep);
    // The scopes begin and end in any order. The properties of a lease are read only after its
    // scope has ended.
    await Promise.all([
      mutex.using(keep),
      mutex.using(async (lease) => (await sleep(20), keep(lease))),
      mutex.using(keep),
    ]);
    await mutex.using(async () => mutex.using(() => mutex.using(keep)));
    assert.equal(kept.length, 5);
    for (const lease of kept) {
      assert.deepEqual([lease.state, lease.path, lease.node], ['released', outer.path, outer.node]);
      assert.deepEqual([lease.fencingToken, lease.sessionId, lease.remaining], [outer.fencingToken, outer.sessionId, 0]);
      assert.equal(lease.signal.aborted, false);
      assert.throws(() => lease.check(), NotHeldError);
      await assert.rejects(lease.release(), NotHeldError);
    }
    outer.check();
    // A lease that the body releases itself stays released.
    await mutex.using((lease) => void lease.release());
    assert.equal((await contenders(mutex.path)).length, 1);
  });
  await untilContenders(mutex.path, 0);
});

scenario('an inner body that is given up gives its lease back when it is collected', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await mutex.using(async () => {
    const begun = new Promise((begin) => {
      void mutex.using(() => (begin(), new Promise(() => undefined)));
    });
    await begun;
  });
  await until('the inner lease is collected and released', async () => {
    globalThis.gc();
    return (await contenders(mutex.path)).length === 0;
  });
});

scenario('a loss is reported for each lease, even if its body has not used it', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const lostLeases = [];
  const losing = mutex.using(async (outer) => {
    await mutex.using(() => void client.on('lost', (lease) => lostLeases.push(lease)));
    await mutex.using(async (inner) => {
      await client.breakLock(outer.node);
      while (lostLeases.length < 2) await sleep(10);
      assert.deepEqual(new Set(lostLeases), new Set([outer, inner]));
    });
  });
  await assert.rejects(losing, LockLostError);
});

scenario('a body never runs before using() has returned', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await mutex.using(async () => {
    let returned = false;
    const inner = mutex.using(() => assert.ok(returned));
    returned = true;
    await inner;
  });
});

scenario('an inner scope outlives an outer one that did not wait for it', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const [entered, ended] = [resolvers(), resolvers()];
  let inner;
  await mutex.using(async () => {
    inner = mutex.using(async (lease) => {
      entered.resolve();
      await ended.promise;
      // The inner scope still has the owner of the outer scope, so it can re-enter.
      await mutex.using({ timeout: 5000 }, ({ node }) => assert.equal(node, lease.node));
    });
    await entered.promise;
  });
  ended.resolve();
  await inner;
  await untilContenders(mutex.path, 0);
});

function resolvers() {
  const both = {};
  both.promise = new Promise((resolve) => (both.resolve = resolve));
  return both;
}
