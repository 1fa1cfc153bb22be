// Tests of the functions that resemble the Web Locks API.

import assert from 'node:assert/strict';

import { BadArgumentError, LockTimeoutError, Mutex, UpgradeRefusedError } from 'zklock';

import { connected, contenders, freshPath, scenario, untilContenders } from './support.mjs';

/** Requests a lock and keeps it until `release()` is called. Resolves when the lock is held. */
async function held(client, path, options = {}) {
  let release;
  const ended = new Promise((resolve) => (release = resolve));
  let whole;
  await new Promise((resolve, reject) => {
    whole = client.request(path, options, (lease) => {
      resolve(lease);
      return ended;
    });
    whole.catch(reject);
  });
  return async () => {
    release();
    await whole;
  };
}

scenario('a request holds the lock while its callback runs, and resolves as the callback does', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const result = await client.request(path, async (lease) => {
    assert.equal(lease.state, 'held');
    assert.equal((await contenders(path)).length, 1);
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await client.request(path, { mode: 'exclusive' }, () => 7), 7);
  await untilContenders(path, 0);
});

scenario('a request rejects as its callback does, and the lock is free', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const oops = new Error('oops');
  await assert.rejects(
    client.request(path, () => {
      throw oops;
    }),
    (error) => error === oops,
  );
  await untilContenders(path, 0);
});

scenario('exclusive requests take turns, with each other, with shared ones and with a mutex', async (t) => {
  const [first, second] = [await connected(t), await connected(t)];
  const path = freshPath();
  for (const [ours, theirs] of [
    [{}, {}],
    [{ mode: 'exclusive' }, { mode: 'shared' }],
    [{ mode: 'shared' }, { mode: 'exclusive' }],
  ]) {
    const release = await held(first, path, ours);
    const order = [];
    const waiting = second.request(path, theirs, () => order.push('second'));
    await untilContenders(path, 2);
    order.push('first');
    await release();
    await waiting;
    assert.deepEqual(order, ['first', 'second']);
  }
  const release = await held(first, path, { mode: 'shared' });
  assert.equal(await new Mutex(second, path).tryAcquire(), null);
  await release();
});

scenario('shared requests hold the lock together', async (t) => {
  const [first, second] = [await connected(t), await connected(t)];
  const path = freshPath();
  const releases = [await held(first, path, { mode: 'shared' }), await held(second, path, { mode: 'shared' })];
  assert.equal((await contenders(path)).length, 2);
  for (const release of releases) await release();
});

scenario('with ifAvailable, the callback of a lock that is taken gets null, without a place in the queue', async (t) => {
  const [first, second] = [await connected(t), await connected(t)];
  const path = freshPath();
  const release = await held(first, path);
  for (const mode of ['exclusive', 'shared']) {
    const got = await second.request(path, { mode, ifAvailable: true }, async (lease) => [lease, (await contenders(path)).length]);
    assert.deepEqual(got, [null, 1]);
  }
  await release();
  assert.equal(await second.request(path, { ifAvailable: true }, (lease) => lease.state), 'held');
});

scenario('with ifAvailable, a time-out of the callback is the callback’s', async (t) => {
  const client = await connected(t);
  let calls = 0;
  const late = new LockTimeoutError('late');
  const request = client.request(freshPath(), { ifAvailable: true }, () => {
    calls += 1;
    throw late;
  });
  await assert.rejects(request, (error) => error === late);
  assert.equal(calls, 1);
});

scenario('a signal ends the wait with its reason, and has no effect once the lock is held', async (t) => {
  const [first, second] = [await connected(t), await connected(t)];
  const path = freshPath();
  const release = await held(first, path);
  const [waiting, holding] = [new AbortController(), new AbortController()];
  const request = second.request(path, { signal: waiting.signal }, () => assert.fail('called'));
  await untilContenders(path, 2);
  waiting.abort('enough');
  await assert.rejects(request, (reason) => reason === 'enough');
  await untilContenders(path, 1);
  await release();
  const kept = await second.request(path, { signal: holding.signal }, async (lease) => {
    holding.abort('too late');
    await contenders(path);
    return lease.state;
  });
  assert.equal(kept, 'held');
});

scenario('a request inside a callback for the same path belongs to the same owner', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const inner = await client.request(path, () => client.request(path, { mode: 'shared', ifAvailable: true }, (lease) => lease.state));
  assert.equal(inner, 'held');
  await assert.rejects(
    client.request(path, { mode: 'shared' }, () => client.request(path, () => assert.fail('called'))),
    UpgradeRefusedError,
  );
});

scenario('steal and invalid options are refused before anything is sent', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const never = () => assert.fail('called');
  await assert.rejects(client.request(path, { steal: true }, never), (error) => {
    assert.ok(error instanceof BadArgumentError);
    assert.match(error.message, /steal: not supported.*breakLock/);
    return true;
  });
  await assert.rejects(client.request(path, { mode: 'read' }, never), /mode: must be 'exclusive' or 'shared', but is "read"/);
  await assert.rejects(client.request('', never), BadArgumentError);
  for (const wrong of [[{}], [], [{ ifAvailable: 1 }, never], [{ signal: 1 }, never], [null, never]]) {
    await assert.rejects(client.request(path, ...wrong), TypeError);
  }
  assert.equal(await client.request(path, { steal: false }, () => 'fine'), 'fine');
});

scenario('a query lists holders and waiters, with mode and session', async (t) => {
  const [first, second] = [await connected(t), await connected(t)];
  const path = freshPath();
  assert.deepEqual(await first.query(path), { held: [], pending: [] });
  const releases = [await held(first, path, { mode: 'shared' }), await held(second, path, { mode: 'shared' })];
  const writing = second.request(path, () => undefined);
  await untilContenders(path, 3);
  const reading = first.request(path, { mode: 'shared' }, () => undefined);
  await untilContenders(path, 4);
  const info = (client, mode) => ({ name: path, mode, clientId: String(client.sessionId) });
  const snapshot = await second.query(path);
  assert.deepEqual(snapshot, {
    held: [info(first, 'shared'), info(second, 'shared')],
    pending: [info(second, 'exclusive'), info(first, 'shared')],
  });
  for (const release of releases) await release();
  await Promise.all([writing, reading]);
  const release = await held(second, path);
  const waiting = first.request(path, { mode: 'shared' }, () => undefined);
  await untilContenders(path, 2);
  assert.deepEqual(await first.query(path), { held: [info(second, 'exclusive')], pending: [info(first, 'shared')] });
  await release();
  await waiting;
});
