// Tests each operation twice in every state of a client, and uses the same object again after each
// event.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';

import { Client, Election, LockLostError, LockTimeoutError, MultiLock, Mutex, NotHeldError, Semaphore, ZkLockError } from 'zklock';
import { Server } from 'zklock/testing';

import { scenario, sleep, until } from './support.mjs';

/** Time to wait if no reply is expected, in ms. */
const BRIEF = 400;
/** Time to wait if a reply is expected, in ms. It is long enough for a busy machine. */
const PATIENT = 20_000;
/**
 * Time in ms that an operation can take beyond its own timeout: the rest of a term, or the reply to
 * a close.
 */
const BEYOND = 8000;
const LONG = 600_000;

const SITUATIONS = [
  'unconnected', 'unreachable', 'connected', 'back', 'broken', 'anew', 'cut', 'between', 'silent', 'draining', 'closing', 'closed',
];
const ANSWERED = new Set(['unconnected', 'connected', 'back', 'broken', 'anew', 'draining']);

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Brings a client into a situation. The client holds a lease of `/held` if it could get one. */
async function reach(situation) {
  const server = await Server.start();
  const answered = ANSWERED.has(situation);
  const timeout = answered ? PATIENT : BRIEF;
  const hosts = situation === 'unreachable' ? `127.0.0.1:${await freePort()}` : server.hosts;
  const client = new Client(hosts, { connectTimeout: answered ? PATIENT : 2 * BRIEF, sessionTimeout: 4000 });
  const world = { server, client, timeout, lease: undefined, ends: [] };
  if (situation === 'unconnected' || situation === 'unreachable') return world;
  const lease = await new Mutex(client, '/held').acquire({ timeout: PATIENT });
  world.lease = lease;
  const session = client.sessionId;
  const becomes = (state) => until(`the client is ${state}`, () => client.state === state, PATIENT);
  const lost = () => until('the lease is lost', () => lease.state === 'lost', PATIENT);
  switch (situation) {
    case 'back': {
      const states = [];
      client.on('state', (state) => states.push(state));
      await server.disconnect(client);
      await until('it is back', () => states.at(-1) === 'connected' && lease.state === 'held', PATIENT);
      break;
    }
    case 'broken': {
      const operator = await Client.connect(server.hosts);
      await operator.breakLock(lease.node);
      await operator.close();
      await lost();
      break;
    }
    case 'anew':
      await server.expire(client);
      await lost();
      await until('another session', () => ![0n, session].includes(client.sessionId), PATIENT);
      break;
    case 'cut':
      await server.pause();
      await server.disconnect(client);
      await becomes('suspended');
      break;
    case 'between':
      // The first reply tells the client that its session has expired. The client then waits for a
      // second reply.
      await server.latency(BRIEF);
      await server.expire(client);
      await becomes('connecting');
      await server.pause();
      break;
    case 'silent':
      await server.pause();
      break;
    case 'draining':
      world.ends.push(client.close({ drain: LONG }));
      break;
    case 'closing':
      await server.pause();
      world.ends.push(client.close());
      await becomes('closed');
      break;
    case 'closed':
      await client.close();
      break;
  }
  return world;
}

/** Releases the lease that an attempt acquired. */
const back = async (acquired) => {
  const lease = await acquired;
  if (lease === null) return 'taken';
  await lease.release();
  return 'ok';
};
const ok = async (done) => {
  await done;
  return 'ok';
};

const OPERATIONS = {
  ready: ({ client }) => ok(client.ready()),
  get: async ({ client }) => String(await client.get('/none')),
  setSharedCount: ({ client }) => ok(client.setSharedCount('/count', 2)),
  revoke: ({ client, lease }) => ok(client.revoke(lease.node)),
  breakLock: ({ client, lease }) => ok(client.breakLock(lease.node)),
  acquire: ({ client, timeout }) => back(new Mutex(client, '/free').acquire({ timeout })),
  tryAcquire: ({ client }) => back(new Mutex(client, '/free').tryAcquire()),
  using: ({ client, timeout }) => new Mutex(client, '/free').using({ timeout }, ({ state }) => state),
  tryUsing: ({ client }) => new Mutex(client, '/free').tryUsing(({ state }) => state),
  semaphore: ({ client, timeout }) => back(new Semaphore(client, '/permits', 2).acquireMany(2, { timeout })),
  multi: ({ client, timeout }) => back(new MultiLock(['/one', '/two'].map((path) => new Mutex(client, path))).acquire({ timeout })),
  contenders: async ({ client }) => String((await new Mutex(client, '/free').contenders()).length),
  locked: async ({ client }) => String(await new Mutex(client, '/held').locked()),
  campaign: ({ client, timeout }) => back(new Election(client, '/election').campaign({ timeout })),
  leader: async ({ client }) => String(await new Election(client, '/election').leader()),
  request: ({ client }) => client.request('/free', { ifAvailable: true }, (lease) => lease?.state ?? 'taken'),
  query: async ({ client }) => String((await client.query('/free')).held.length),
  check: async ({ lease }) => String(lease.check()),
  release: ({ lease }) => ok(lease.release()),
  'release without waiting': ({ lease }) => ok(lease.release({ wait: false })),
  'asyncDispose': ({ lease }) => ok(lease[Symbol.asyncDispose]()),
  transaction: ({ lease }) => ok(lease.transaction().create('/x').delete('/x').commit()),
  close: ({ client }) => ok(client.close()),
  drain: ({ client }) => ok(client.close({ drain: BRIEF })),
};

/**
 * Returns a row of expected results: with a reply, without a reply, while the client drains, and
 * after it closes.
 */
const row = (well, unanswered, draining = 'CLIENT_CLOSED', ended = 'CLIENT_CLOSED') => Object.fromEntries(
  SITUATIONS.map((at) => {
    if (at === 'draining') return [at, draining];
    if (at === 'closing' || at === 'closed') return [at, ended];
    return [at, ANSWERED.has(at) ? well : unanswered];
  }),
);
/** Returns a row for an operation on a lease: held, lost, or without a connection to prove it. */
const ofLease = (held, lost, unanswered, closed = lost) => ({
  connected: held, back: held, broken: lost, anew: lost, cut: unanswered, between: lost, silent: unanswered, draining: held, closing: closed, closed,
});

const FAILED = 'CONNECTION_FAILED';
const TABLE = {
  ready: { ...row('ok', FAILED, 'ok'), silent: 'ok' },
  get: row('null', FAILED, 'null'),
  setSharedCount: row('ok', FAILED, 'ok'),
  revoke: { ...ofLease('ok', 'NOT_HELD', FAILED, 'CLIENT_CLOSED'), between: FAILED },
  breakLock: { ...ofLease('ok, NOT_HELD', 'NOT_HELD', FAILED, 'CLIENT_CLOSED'), between: FAILED },
  acquire: row('ok', 'LOCK_TIMEOUT'),
  tryAcquire: row('ok', FAILED),
  using: row('held', 'LOCK_TIMEOUT'),
  tryUsing: row('held', FAILED),
  semaphore: row('ok', 'LOCK_TIMEOUT'),
  multi: row('ok', 'LOCK_TIMEOUT'),
  contenders: row('0', FAILED, '0'),
  locked: { ...row('false', FAILED, 'true'), connected: 'true', back: 'true' },
  campaign: row('ok', 'LOCK_TIMEOUT'),
  leader: row('null', FAILED, 'null'),
  request: row('held', FAILED),
  query: row('0', FAILED, '0'),
  check: ofLease('undefined', 'LOCK_LOST', 'undefined'),
  release: ofLease(...Array.from({ length: 3 }, () => 'ok, NOT_HELD')),
  'release without waiting': ofLease(...Array.from({ length: 3 }, () => 'ok, NOT_HELD')),
  asyncDispose: ofLease('ok', 'ok', 'ok'),
  transaction: ofLease('ok', 'LOCK_LOST', FAILED),
  close: row('ok', 'ok', 'ok', 'ok'),
  drain: row('ok', 'ok', 'ok', 'ok'),
};

async function twice(operation, situation) {
  const world = await reach(situation);
  const outcomes = [];
  for (let count = 0; count < 2; count += 1) {
    const hangs = sleep(world.timeout + BEYOND).then(() => 'hangs');
    const outcome = (async () => OPERATIONS[operation](world))().catch((error) => {
      if (!(error instanceof ZkLockError)) throw error;
      return error.code;
    });
    outcomes.push(await Promise.race([outcome, hangs]));
  }
  await world.server.resume();
  await world.server.latency(0);
  await world.client.close();
  await Promise.all(world.ends);
  await world.server.stop();
  return [...new Set(outcomes)].join(', ');
}

scenario('the table has every operation', () => {
  assert.deepEqual(Object.keys(TABLE), Object.keys(OPERATIONS));
});

for (const [operation, expected] of Object.entries(TABLE)) {
  scenario(`${operation}, twice in every situation`, async () => {
    const situations = Object.keys(expected);
    const found = await Promise.all(situations.map((situation) => twice(operation, situation)));
    assert.deepEqual(Object.fromEntries(situations.map((situation, index) => [situation, found[index]])), expected);
  }, 120_000);
}

/** Starts a server and a client. Both are closed at the end of the test. */
async function pair(t) {
  const server = await Server.start();
  const client = await Client.connect(server.hosts);
  t.after(async () => {
    await client.close();
    await server.stop();
  });
  return { server, client };
}

const nodes = async (server) => Object.keys(await server.tree()).filter((node) => node.includes('-lock-'));

for (const how of ['released', 'broken', 'expired', 'held too long', 'timed out', 'aborted']) {
  scenario(`a lock is used again after it was ${how}`, async (t) => {
    const { server, client } = await pair(t);
    const lock = new Mutex(client, '/l', how === 'held too long' ? { maxHold: 300 } : {});
    const tokens = [];
    for (let count = 0; count < 2; count += 1) {
      if (how === 'timed out' || how === 'aborted') {
        const theirs = await new Mutex(client, '/l').acquire();
        const giveUp = how === 'aborted' ? { signal: AbortSignal.timeout(50) } : { timeout: 50 };
        await assert.rejects(lock.acquire(giveUp), how === 'aborted' ? { name: 'TimeoutError' } : LockTimeoutError);
        await theirs.release();
      }
      let lease;
      const lost = ['broken', 'expired', 'held too long'].includes(how);
      const used = lock.using(async (inside) => {
        lease = inside;
        tokens.push(lease.fencingToken);
        if (how === 'broken') await client.breakLock(lease.node);
        if (how === 'expired') await server.expire(lease);
        if (lost && !lease.signal.aborted) await once(lease.signal, 'abort');
        return 'done';
      });
      if (lost) await assert.rejects(used, LockLostError);
      else assert.equal(await used, 'done');
      await assert.rejects(lease.release(), NotHeldError);
      assert.throws(() => lease.check(), lost ? ZkLockError : NotHeldError);
      await until('the lock is free', async () => (await nodes(server)).length === 0);
    }
    assert.ok(tokens[0] < tokens[1]);
  });
}

scenario('releasing a lost lease does not end a later hold', async (t) => {
  const { server, client } = await pair(t);
  const lock = new Mutex(client, '/l');
  const lost = await lock.acquire();
  await server.expire(client);
  await until('it is lost', () => lost.state === 'lost');
  const later = await lock.acquire();
  await lost.release();
  await assert.rejects(lost.release(), NotHeldError);
  later.check();
  assert.deepEqual(await nodes(server), [later.node]);
  const releases = await Promise.allSettled([later.release(), later.release(), later.release()]);
  assert.deepEqual(releases.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected']);
  assert.ok(releases.every(({ reason }) => reason === undefined || reason.code === 'NOT_HELD'));
});

scenario('each listener is called once, and removing one twice is harmless', async (t) => {
  const { server, client } = await pair(t);
  const received = [];
  const note = (state) => received.push(state);
  client.on('state', note);
  client.on('state', note);
  const gone = () => received.push('!');
  client.on('state', gone);
  client.off('state', gone);
  client.off('state', gone);
  await server.disconnect(client);
  await until('four reports', () => received.length >= 4);
  await sleep(100);
  assert.deepEqual([...received].sort(), ['connected', 'connected', 'suspended', 'suspended']);
  // As in an EventEmitter, `off` removes only one of the two registrations.
  client.off('state', note);
  received.length = 0;
  await server.disconnect(client);
  await until('two reports', () => received.length >= 2);
  await sleep(100);
  assert.deepEqual(received, ['suspended', 'connected']);
});

scenario('a revocation request reaches each listener of a lease', async (t) => {
  const { client } = await pair(t);
  const lease = await new Mutex(client, '/l').acquire();
  const received = [];
  const stop = lease.onRevoke(() => received.push('first'));
  lease.onRevoke(() => received.push('second'));
  await client.revoke(lease.node);
  await until('both listeners are called', () => received.length >= 2);
  stop();
  stop();
  await client.revoke(lease.node);
  lease.onRevoke(() => received.push('third'));
  await until('the late listener is called', () => received.includes('third'));
  assert.deepEqual(received.slice(0, 2).sort(), ['first', 'second']);
  await lease.release();
  await assert.rejects(client.revoke(lease.node), NotHeldError);
  await assert.rejects(client.breakLock(lease.node), NotHeldError);
});

for (const drains of [[BRIEF, LONG], [LONG, BRIEF], [LONG, 0]]) {
  scenario(`of two drains the earliest counts: ${drains.join(' and ')}`, async (t) => {
    const { client } = await pair(t);
    const lease = await new Mutex(client, '/l').acquire();
    await Promise.all(drains.map((drain) => client.close({ drain })));
    assert.deepEqual([client.state, lease.lossReason], ['closed', 'client closed']);
    await client.close();
    await client.close({ drain: LONG });
  });
}

scenario('a candidate campaigns again, and runs again', async (t) => {
  const { client } = await pair(t);
  const election = new Election(client, '/e');
  const [one, same] = [await election.campaign(), await election.campaign()];
  assert.equal(one.fencingToken, same.fencingToken);
  await one.resign();
  await assert.rejects(one.resign(), NotHeldError);
  assert.ok(election.isLeader);
  await client.breakLock(same.node);
  await until('it is lost', () => same.state === 'lost');
  assert.ok(!election.isLeader);
  const next = await election.campaign();
  assert.ok(next.fencingToken > same.fencingToken);
  await same.resign();
  assert.ok(election.isLeader);
  await next.resign();
  let rounds = 0;
  for (let run = 1; run <= 3; run += 1) {
    const failing = election.run(() => {
      rounds += 1;
      throw new RangeError(`round ${rounds}`);
    });
    await assert.rejects(failing, { name: 'RangeError', message: `round ${run}` });
    assert.deepEqual([election.isLeader, await election.candidates()], [false, []]);
  }
  await client.close();
  await election.run(() => (rounds += 1));
  assert.equal(rounds, 3);
});

scenario('a transaction that failed leaves the next one alone', async (t) => {
  const { client } = await pair(t);
  const lease = await new Mutex(client, '/l').acquire();
  for (const path of ['/x', '/y']) {
    await assert.rejects(lease.transaction().create(path).check('/none', 3).commit(), { code: 'TRANSACTION_FAILED' });
    assert.equal(await client.get(path), null);
    await lease.transaction().create(path, '1').commit();
    await assert.rejects(lease.transaction().create(path).commit(), { code: 'TRANSACTION_FAILED' });
    await lease.transaction().setData(path, '2', 0).commit();
    lease.check();
  }
  await lease.release();
  for (let count = 0; count < 2; count += 1) {
    await assert.rejects(lease.transaction().create('/z').commit(), NotHeldError);
  }
});

scenario('a server is paused twice, resumed once, late twice, and all of it at once', async (t) => {
  const { server, client } = await pair(t);
  const holder = await Client.connect(server.hosts);
  const lease = await new Mutex(holder, '/l').acquire();
  const waiting = new Mutex(client, '/l').acquire();
  await until('both contend', async () => (await nodes(server)).length === 2);
  await server.latency(LONG);
  await server.latency(300);
  await server.pause();
  await server.pause();
  assert.equal(await server.disconnect(holder), true);
  assert.equal(await server.disconnect(holder), false);
  assert.equal(await server.expire(lease), true);
  assert.equal(await server.expire(lease), false);
  assert.equal((await nodes(server)).length, 1);
  assert.equal(await Promise.race([waiting, sleep(400).then(() => 'silence')]), 'silence');
  assert.equal(lease.lossReason, undefined);
  await server.resume();
  await server.resume();
  const granted = await waiting;
  await until('the holder knows', () => lease.lossReason === 'session expired');
  // The latency also delays the notification that grants the lock to the next waiter.
  const next = new Mutex(holder, '/l').acquire();
  await until('both contend', async () => (await nodes(server)).length === 2);
  const begun = performance.now();
  await server.expire(granted);
  const last = await next;
  assert.ok(performance.now() - begun >= 299);
  await server.latency(0);
  await server.latency(0);
  await last.release();
  await holder.close();
  await Promise.all([server.stop(), server.stop()]);
});
