// Tests of the owner numbers and names that contenders publish in their nodes.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import { Election, LockTimeoutError, MultiLock, Mutex, ReadWriteLock, Semaphore, dump } from 'zklock';

import { connected, freshPath, scenario, sleep, until, untilContenders } from './support.mjs';

/** Returns the owners of the contenders for a lock. */
const owners = async (lock) => (await lock.contenders()).map(({ about }) => about?.owner);

/**
 * Returns the owner's number and name that all contenders for a lock publish. A permit of a
 * semaphore can have two nodes of one owner.
 */
async function publishedOwner(lock) {
  const [owner, ...others] = await owners(lock);
  for (const other of others) assert.deepEqual(other, owner);
  return [owner.number, owner.name];
}

/** Returns some locks of a client. */
const mutexes = (client, count = 2) => Array.from({ length: count }, () => new Mutex(client, freshPath()));

scenario('outside scopes each acquire has a number of its own', async (t) => {
  const client = await connected(t);
  const [first, second] = mutexes(client);
  const leases = [await first.acquire(), await second.acquire()];
  const [[one], [other]] = [await publishedOwner(first), await publishedOwner(second)];
  assert.ok(Number.isSafeInteger(one) && one > 0);
  assert.notEqual(one, other);
  const [{ process: here }] = await owners(first);
  assert.ok(Number.isSafeInteger(here) && here > 0);
  assert.equal((await owners(second))[0].process, here);
  for (const lease of leases) await lease.release();
});

scenario('inside scopes it is the outermost one, for locks of all kinds', async (t) => {
  const client = await connected(t);
  const [outer, middle, inner, single] = mutexes(client, 4);
  const { writeLock } = new ReadWriteLock(client, freshPath());
  const [permit, permits] = [new Semaphore(client, freshPath(), 1), new Semaphore(client, freshPath(), 2)];
  const several = mutexes(client);
  await outer.using({ owner: 'report' }, async () => {
    const expected = await publishedOwner(outer);
    assert.equal(expected[1], 'report');
    await middle.using({ owner: 'another name' }, async () => {
      const held = [await inner.acquire(), await writeLock.acquire(), await permit.acquire()];
      held.push(...(await permits.acquireMany(2)), ...(await new MultiLock(several).acquire()));
      for (const lock of [middle, inner, writeLock, permit, permits, ...several]) {
        assert.deepEqual(await publishedOwner(lock), expected, lock.path);
      }
      await single.once('slot', async () => assert.deepEqual(await publishedOwner(single), expected));
      const { holds } = client.health();
      assert.equal(holds.length, 9);
      for (const { path, owner } of holds) assert.deepEqual([owner.number, owner.name], expected, path);
      for (const lease of held) await lease.release();
    });
  });
});

scenario('a re-entry uses the innermost scope, and changes no owner number', async (t) => {
  const client = await connected(t);
  const [outer, inner] = mutexes(client);
  await outer.using(async () => {
    await inner.using(async (lease) => {
      const before = await publishedOwner(inner);
      assert.deepEqual(before, await publishedOwner(outer));
      const again = await inner.tryAcquire({ owner: 'nobody' });
      assert.equal(again.node, lease.node);
      assert.deepEqual(await publishedOwner(inner), before);
      await again.release();
    });
  });
});

scenario('scopes of locks that are not entered again count too', async (t) => {
  const client = await connected(t);
  const [inner] = mutexes(client, 1);
  const locks = [new Mutex(client, freshPath(), { reentrant: false }), new Semaphore(client, freshPath(), 1)];
  for (const lock of locks) {
    await lock.using({ owner: 'worker-1' }, async () => {
      await inner.using(async () => assert.deepEqual(await publishedOwner(inner), await publishedOwner(lock)));
      assert.equal(await lock.tryAcquire(), null);
    });
  }
  const election = new Election(client, freshPath());
  await election.using(async () => {
    await inner.using(async () => {
      const numbers = client.health().holds.map(({ owner }) => owner.number);
      assert.deepEqual(numbers, [numbers[0], numbers[0]]);
    });
  });
});

scenario('such a scope keeps no lease of an abandoned body', async (t) => {
  const client = await connected(t);
  const semaphore = new Semaphore(client, freshPath(), 1);
  await new Promise((begin) => {
    void semaphore.using(() => (begin(), new Promise(() => undefined)));
  });
  await until('the permit is collected and given back', () => (globalThis.gc(), client.health().holds.length === 0));
});

scenario('the outermost scope counts, also around a lease of another owner', async (t) => {
  const client = await connected(t);
  const [outer, held, inner] = mutexes(client, 3);
  const earlier = await held.acquire({ owner: 'earlier' });
  await outer.using({ owner: 'report' }, () =>
    held.using({ within: earlier }, () =>
      inner.using(async () => {
        assert.deepEqual(await publishedOwner(inner), await publishedOwner(outer));
        assert.equal((await publishedOwner(held))[1], 'earlier');
      }),
    ),
  );
  await earlier.release();
});

scenario('concurrent scopes, and scopes of another client, have other owners', async (t) => {
  const [client, elsewhere] = [await connected(t), await connected(t)];
  const [outer] = mutexes(client, 1);
  const [other] = mutexes(elsewhere, 1);
  const locks = mutexes(client);
  await outer.using(async () => {
    await other.using(async () => assert.notDeepEqual(await publishedOwner(other), await publishedOwner(outer)));
  });
  const seen = await Promise.all(locks.map((lock) => lock.using(() => publishedOwner(lock))));
  assert.notEqual(seen[0][0], seen[1][0]);
});

scenario('a callback that outlives its scope is a new owner', async (t) => {
  const client = await connected(t);
  const [outer, later] = mutexes(client);
  let pending;
  const number = await outer.using({ owner: 'gone' }, async () => {
    pending = sleep(30).then(() => later.acquire());
    return (await publishedOwner(outer))[0];
  });
  const lease = await pending;
  const [another, name] = await publishedOwner(later);
  assert.notEqual(another, number);
  assert.equal(name, undefined);
  await lease.release();
});

scenario('an inner scope that outlives the outermost scope keeps its owner number', async (t) => {
  const client = await connected(t);
  const [outer, inner, last] = mutexes(client, 3);
  let running;
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const expected = await outer.using({ owner: 'first' }, async () => {
    const entered = new Promise((resolve) => {
      running = inner.using(async () => {
        resolve();
        await ended;
        await last.using(async () => assert.deepEqual(await publishedOwner(last), await publishedOwner(inner)));
        return publishedOwner(inner);
      });
    });
    await entered;
    return publishedOwner(outer);
  });
  end();
  assert.deepEqual(await running, expected);
});

scenario('each way to acquire takes a name', async (t) => {
  const client = await connected(t);
  const [mutex, other] = mutexes(client);
  const both = new MultiLock([mutex]);
  const owner = 'worker-1';
  const named = async ({ path = mutex.path } = {}) => assert.equal((await publishedOwner(path === mutex.path ? mutex : other))[1], owner);
  const released = async (lease) => (await named(), lease.release());
  await released(await mutex.acquire({ owner }));
  await released(await mutex.tryAcquire({ owner }));
  await released(await both.acquire({ owner }));
  await released(await both.tryAcquire({ owner }));
  await mutex.using({ owner }, named);
  await mutex.tryUsing({ owner }, named);
  await both.using({ owner }, named);
  await mutex.once('slot', named, { owner });
  await other.oncePer(3_600_000, named, { owner });
  const lease = await mutex.acquire({ owner });
  await mutex.using({ within: lease, owner: 'nobody' }, named);
  await lease.release();
});

scenario('waits and holds are reported with their owners', async (t) => {
  const client = await connected(t);
  const [mutex] = mutexes(client, 1);
  const lease = await mutex.acquire({ owner: 'first' });
  const second = mutex.acquire();
  await until('it waits', () => client.health().waits.length === 1);
  const { holds: [hold], waits: [wait] } = client.health();
  assert.deepEqual(hold.owner, { number: (await owners(mutex))[0].number, name: 'first' });
  assert.deepEqual(Object.keys(wait.owner), ['number']);
  assert.notEqual(wait.owner.number, hold.owner.number);
  assert.ok(dump().includes(`by owner ${hold.owner.number} (first)`));
  assert.deepEqual(JSON.parse(JSON.stringify(client.health())).holds[0].owner, hold.owner);
  await lease.release();
  await (await second).release();
});

scenario('the error of a second contender names the owner that holds', async (t) => {
  const client = await connected(t);
  const [mutex] = mutexes(await connected(t), 1);
  const lease = await mutex.acquire({ owner: 'worker-2' });
  const [number] = await publishedOwner(mutex);
  await assert.rejects(new Mutex(client, mutex.path).acquire({ timeout: 50 }), (error) => {
    assert.ok(error instanceof LockTimeoutError);
    assert.match(error.message, new RegExp(`, owner ${number} \\(worker-2\\), since `));
    assert.deepEqual(error.blockers[0].about.owner, { number, name: 'worker-2', process: error.blockers[0].about.owner.process });
    return true;
  });
  await lease.release();
});

scenario('the timeout error of two scopes that wait for each other reports the deadlock', async (t) => {
  const [client, other] = [await connected(t), await connected(t)];
  const [first, second] = mutexes(client);
  const [their, wanted] = [second, first].map(({ path }) => new Mutex(other, path));
  let begun;
  const theirs = new Promise((resolve) => (begun = resolve));
  let waiting;
  await first.using(async () => {
    waiting = their.using({ owner: 'worker-2' }, async () => {
      begun();
      await wanted.using(async () => {});
    });
    await theirs;
    await untilContenders(first.path, 2);
    await assert.rejects(second.using({ timeout: 4000 }, async () => {}), (error) => {
      assert.ok(error instanceof LockTimeoutError);
      const { held, waited, other: contender } = error.deadlock;
      assert.deepEqual([held, waited], [first.path, second.path]);
      assert.equal(contender.about.owner.name, 'worker-2');
      assert.deepEqual(contender, error.blockers[0]);
      assert.ok(Object.isFrozen(error.deadlock));
      assert.ok(error.message.endsWith(`(worker-2) of this process holds ${waited} and waits for ${held}`));
      return true;
    });
    await assert.rejects(second.using({ timeout: 50 }, async () => {}), LockTimeoutError);
  });
  await waiting;
  const lease = await first.acquire();
  await assert.rejects(wanted.acquire({ timeout: 200 }), ({ deadlock }) => deadlock === undefined);
  await lease.release();
});

scenario('a client without identify publishes no owner', async (t) => {
  const client = await connected(t, { identify: false });
  const [mutex] = mutexes(client, 1);
  const lease = await mutex.acquire({ owner: 'secret' });
  const [{ about, data }] = await mutex.contenders();
  assert.equal(about, undefined);
  assert.equal(data.length, 0);
  // The owner's own program can still see the name.
  assert.equal(client.health().holds[0].owner.name, 'secret');
  await lease.release();
});

scenario('names of owners are checked, and only their beginning is published', async (t) => {
  const client = await connected(t);
  const [mutex, outer] = mutexes(client);
  const attempts = [
    (owner) => mutex.acquire({ owner }),
    (owner) => mutex.tryAcquire({ owner }),
    (owner) => mutex.using({ owner }, () => undefined),
    (owner) => mutex.once('slot', () => undefined, { owner }),
    (owner) => new MultiLock([mutex]).acquire({ owner }),
    // The option is also checked where it has no effect.
    (owner) => outer.using(() => mutex.acquire({ owner })),
  ];
  for (const attempt of attempts) {
    for (const owner of ['', 'x'.repeat(1025), '\ud800']) {
      await assert.rejects(attempt(owner), { code: 'BAD_ARGUMENT', message: /^owner: / });
    }
    await assert.rejects(attempt(7), { name: 'TypeError', message: 'owner: must be a string, but is number' });
  }
  await mutex.using({ owner: `x${'é'.repeat(50)}` }, async () => {
    assert.equal((await publishedOwner(mutex))[1], `x${'é'.repeat(31)}`);
  });
  await mutex.using({ owner: '\u001b[2J' }, async () => {
    const [contender] = await mutex.contenders();
    assert.ok(Object.isFrozen(contender.about.owner));
    assert.ok(!inspect(contender, { depth: 5 }).includes('\u001b'));
    assert.ok(inspect(contender, { depth: 5 }).includes('\\u{1b}'));
  });
});
