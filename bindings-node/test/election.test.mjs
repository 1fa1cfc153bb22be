// Leader election: what is particular to Node.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import { Election, Lease, Leadership, LockLostError, LockTimeoutError } from 'zklock';

import { connected, freshPath, scenario, untilContenders } from './support.mjs';

scenario('one leads, and the others wait in order', async (t) => {
  const [client, other] = [(await connected(t)).ref(), await connected(t)];
  const path = freshPath();
  const [first, second] = [new Election(client, path, { id: 'ä' }), new Election(other, path, { id: '' })];
  assert.deepEqual([first.path, first.id, await first.leader(), await first.candidates()], [path, 'ä', null, []]);
  const leadership = await first.campaign({ timeout: 5000 });
  assert.ok(leadership instanceof Leadership && leadership instanceof Lease);
  assert.match(leadership.node, /-latch-\d{10}$/);
  const next = second.campaign();
  await untilContenders(path, 2);
  const candidates = await first.candidates();
  assert.deepEqual(candidates.map(({ position, id }) => [position, id]), [[0, 'ä'], [1, '']]);
  assert.equal((await second.leader()).fencingToken, leadership.fencingToken);
  assert.deepEqual([first.isLeader, second.isLeader], [true, false]);
  await assert.rejects(new Election(other, path).campaign({ timeout: 0 }), LockTimeoutError);
  await leadership.resign();
  assert.equal(first.isLeader, false);
  const successor = await next;
  assert.equal(second.isLeader, true);
  assert.ok(successor.fencingToken > leadership.fencingToken);
  await successor.resign({ wait: false });
});

scenario('an election object is one candidate', async (t) => {
  const client = await connected(t);
  const election = new Election(client, freshPath());
  await election.using(async (outer) => {
    const inner = await election.campaign();
    assert.equal(inner.node, outer.node);
    await outer.resign();
    assert.equal(election.isLeader, true);
    await inner.resign();
  });
  assert.equal(election.isLeader, false);
});

scenario('an aborted campaign withdraws', async (t) => {
  const client = (await connected(t)).ref();
  const path = freshPath();
  await new Election(client, path).using(async () => {
    const controller = new AbortController();
    const waiting = new Election(client, path).campaign({ signal: controller.signal });
    await untilContenders(path, 2);
    controller.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
    await untilContenders(path, 1);
  });
});

scenario('a lost leadership aborts its signal and fails its scope', async (t) => {
  const client = (await connected(t)).ref();
  const election = new Election(client, freshPath());
  const lost = election.using(async (leadership) => {
    // The loss may be known before the answer.
    const aborted = new Promise((resolve) => {
      leadership.signal.addEventListener('abort', resolve);
    });
    await client.breakLock(leadership.node);
    await aborted;
    assert.equal(election.isLeader, false);
  });
  await assert.rejects(lost, LockLostError);
  await election.using({ timeout: 10_000 }, () => assert.equal(election.isLeader, true));
});

scenario('leaders are observed one after another', async (t) => {
  const [client, other] = [await connected(t), await connected(t)];
  const path = freshPath();
  const seen = [];
  let leadership;
  // The client of the observer does not have to be a candidate, and waiting keeps the process alive.
  for await (const leader of new Election(other, path).observe()) {
    seen.push(leader?.id);
    if (leader !== null) await leadership.resign();
    else if (leadership === undefined) leadership = await new Election(client, path, { id: 'me' }).campaign();
    else break;
  }
  assert.deepEqual(seen, [undefined, 'me', undefined]);
});

scenario('observing ends when its signal aborts, and with the client', async (t) => {
  const client = await connected(t);
  const election = new Election(client, freshPath());
  const observe = async (signal) => {
    for await (const leader of election.observe({ signal })) assert.equal(leader, null);
  };
  await assert.rejects(observe(AbortSignal.timeout(100)), { name: 'TimeoutError' });
  const observed = assert.rejects(observe(), { code: 'CLIENT_CLOSED' });
  await election.leader();
  await client.close();
  await observed;
});

scenario('ids are shown escaped', async (t) => {
  const client = await connected(t);
  const election = new Election(client, freshPath(), { id: '\u001b[31m' });
  await election.using(async () => {
    const shown = inspect(await election.leader());
    assert.ok(shown.includes('u{1b}') && !shown.includes('\u001b'), shown);
  });
});

scenario('wrong arguments are refused', async (t) => {
  const client = await connected(t);
  assert.throws(() => new Election(client, 'relative'), { code: 'BAD_ARGUMENT' });
  assert.throws(() => new Election(client, '/a', { id: 'x'.repeat(1025) }), /id: is 1025 bytes long/);
  assert.throws(() => new Election(client, '/a', { id: 1 }), TypeError);
  assert.throws(() => new Leadership(), TypeError);
  await assert.rejects(new Election(client, '/a').campaign({ timeout: -1 }), { code: 'BAD_ARGUMENT' });
});
