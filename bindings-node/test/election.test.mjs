// Tests of leader election that apply only to Node.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import { Client, Election, Lease, Leadership, LockLostError, LockTimeoutError, Mutex } from 'zklock';

import { connected, createNode, freshPath, scenario, sleep, until, untilContenders } from './support.mjs';

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
    // The client might detect the loss before the reply arrives.
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
  // The observer's client is not a candidate.
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

/** Causes the loss of a lease. Resolves when the lease's signal has aborted. */
async function lose(client, lease) {
  // The client might detect the loss before the reply arrives.
  const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
  await client.breakLock(lease.node);
  await aborted;
}

scenario('a candidate leads again when its body has ended, and after a loss, until the client is closed', async (t) => {
  const client = (await connected(t)).ref();
  const election = new Election(client, freshPath());
  const tokens = [];
  await election.run(async (leadership) => {
    assert.ok(leadership instanceof Leadership && election.isLeader);
    tokens.push(leadership.fencingToken);
    if (tokens.length === 2) await lose(client, leadership);
    if (tokens.length === 4) await client.close();
  });
  assert.equal(tokens.length, 4);
  assert.deepEqual(tokens, [...new Set(tokens)].sort((one, next) => (one < next ? -1 : 1)));
  assert.deepEqual([election.isLeader, client.state], [false, 'closed']);
  await election.run(() => assert.fail('it leads'));
});

scenario('a drained client ends a run when the body has ended', async (t) => {
  const client = await connected(t);
  let rounds = 0;
  let closing;
  await new Election(client, freshPath()).run((leadership) => {
    rounds += 1;
    // Longer than any test runs.
    closing = client.close({ drain: 600_000 });
    leadership.check();
  });
  await closing;
  assert.equal(rounds, 1);
});

scenario('a body that fails ends a run, and resigns', async (t) => {
  const client = (await connected(t)).ref();
  const election = new Election(client, freshPath());
  const failure = new Error('out of coffee');
  const failing = [
    () => {
      throw failure;
    },
    () => Promise.reject(failure),
  ];
  for (const body of failing) {
    await assert.rejects(election.run(body), (error) => error === failure);
    assert.deepEqual([election.isLeader, await election.leader()], [false, null]);
  }
  // `run()` treats the loss of another lock like any other error.
  let rounds = 0;
  const other = election.run(() => {
    rounds += 1;
    return new Mutex(client, freshPath()).using((lease) => lose(client, lease));
  });
  await assert.rejects(other, LockLostError);
  assert.equal(rounds, 1);
});

scenario('a campaign that would only fail again ends a run with its error', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  await createNode(path);
  await createNode(`${path}/${'0123456789abcdef'.repeat(2)}__lock__0000000000`);
  const refused = new Election(client, path).run(() => assert.fail('it leads'));
  await assert.rejects(refused, { code: 'BAD_ARGUMENT', message: /kazoo/ });
  await assert.rejects(new Election(client, path).run(), TypeError);
});

scenario('a campaign that cannot connect is followed by another', async (t) => {
  const client = await connected(t);
  const nowhere = new Client('127.0.0.1:1', { connectTimeout: 100 });
  t.after(() => nowhere.close());
  let campaigns = 0;
  class Unlucky extends Election {
    async campaign(options) {
      campaigns += 1;
      if (campaigns < 3) await nowhere.ready();
      return super.campaign(options);
    }
  }
  let led;
  await new Unlucky(client, freshPath()).run(() => {
    led = campaigns;
    return client.close();
  });
  assert.equal(led, 3);
});

scenario('the signal of a run ends a campaign', async (t) => {
  const [client, other] = [(await connected(t)).ref(), await connected(t)];
  const path = freshPath();
  const stop = new AbortController();
  await new Election(other, path).using(async () => {
    const running = new Election(client, path).run(() => assert.fail('it leads'), { signal: stop.signal });
    await untilContenders(path, 2);
    const reason = new Error('enough');
    stop.abort(reason);
    await assert.rejects(running, (error) => error === reason);
    await untilContenders(path, 1);
  });
  const aborted = new Election(client, path).run(() => assert.fail('it leads'), { signal: stop.signal });
  await assert.rejects(aborted, /enough/);
});

scenario('the signal of a run lets the body finish', async (t) => {
  const election = new Election(await connected(t), freshPath());
  const stop = new AbortController();
  const seen = [];
  const running = election.run(
    async (leadership) => {
      stop.abort(new Error('enough'));
      await election.leader();
      seen.push([election.isLeader, leadership.signal.aborted]);
    },
    { signal: stop.signal },
  );
  await assert.rejects(running, /enough/);
  assert.deepEqual(seen, [[true, false]]);
  assert.equal(election.isLeader, false);
  // If the body throws, its error is the result.
  const again = new AbortController();
  const failing = election.run(
    () => {
      again.abort();
      throw new Error('mine');
    },
    { signal: again.signal },
  );
  await assert.rejects(failing, /mine/);
});

for (const how of ['an aborted signal', 'a closed client']) {
  scenario(`${how} ends the pause of a run at once`, async (t) => {
    const [client, other] = [(await connected(t)).ref(), await connected(t)];
    const path = freshPath();
    const stop = new AbortController();
    let rounds = 0;
    const running = new Election(client, path).run(() => void (rounds += 1), { signal: stop.signal });
    const ended = running.then(
      () => 'closed',
      (error) => error.message,
    );
    const observer = new Election(other, path);
    // The fifth pause takes at least 0.8 s, so the client is closed or aborted during the pause.
    await until('the fifth pause', async () => rounds >= 5 && (await observer.leader()) === null);
    if (how === 'a closed client') await client.close();
    else stop.abort(new Error('enough'));
    const end = await Promise.race([ended, sleep(400).then(() => 'late')]);
    assert.deepEqual([end, rounds], [how === 'a closed client' ? 'closed' : 'enough', 5]);
  });
}
