// Tests of once-per-slot runs that apply only to Node.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

import {
  BadArgumentError,
  LockLostError,
  LockTimeoutError,
  Mutex,
  NotHeldError,
  ReadWriteLock,
  Semaphore,
} from 'zklock';

import { connected, createNode, freshPath, home, hosts, scenario, sleep, untilContenders } from './support.mjs';

const YEAR = 365 * 24 * 3_600_000;

/** Returns the record of a lock, or `null` if there is none. */
async function recorded(client, path) {
  const found = await client.get(`${path}.once`);
  return found && JSON.parse(Buffer.from(found.data).toString());
}

scenario('a body runs once, and its result is that of the call', async (t) => {
  const [client, other] = [await connected(t), await connected(t)];
  const path = freshPath();
  const [lock, far] = [new Mutex(client, path, { label: 'nightly' }), new Mutex(other, path)];
  const tokens = [];
  const body = async (lease) => {
    assert.equal(lease.state, 'held');
    await sleep(1);
    tokens.push(String(lease.fencingToken));
    return 'rows';
  };
  assert.equal(await lock.once('monday', body), 'rows');
  assert.equal(await lock.once('monday', body), null);
  assert.equal(await far.once('monday', body), null);
  const record = await recorded(client, path);
  assert.deepEqual([record.slot, record.token, record.by.label], ['monday', tokens[0], 'nightly']);
  assert.equal(await far.once('tuesday', () => 2), 2);
  assert.equal(await lock.once('monday', body), 'rows');
  await untilContenders(path, 0);
  const results = await Promise.all(Array.from({ length: 6 }, () => lock.once('friday', body)));
  assert.deepEqual(results.filter((result) => result !== null), ['rows']);
});

scenario('a body that fails records nothing', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const lock = new Mutex(client, path);
  for (const fail of [() => { throw new Error('mine'); }, () => Promise.reject(new Error('mine'))]) {
    await assert.rejects(lock.once('slot', fail), /mine/);
    assert.equal(await recorded(client, path), null);
    await untilContenders(path, 0);
  }
  assert.equal(await lock.once('slot', () => 'again'), 'again');
});

scenario('a slot that is recorded at the start runs at most once', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const lock = new Mutex(client, path);
  const fail = async () => {
    assert.equal((await recorded(client, path)).slot, 'slot');
    throw new Error('mine');
  };
  await assert.rejects(lock.once('slot', fail, { record: 'start' }), /mine/);
  assert.equal(await lock.once('slot', () => 'again', { record: 'start' }), null);
  await untilContenders(path, 0);
});

scenario('a loss aborts the signal of the lease, and records nothing', async (t) => {
  const client = (await connected(t)).ref();
  const path = freshPath();
  const lock = new Mutex(client, path);
  const aborted = (lease) => new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
  const lose = async (lease) => {
    const loss = aborted(lease);
    await client.breakLock(lease.node);
    await loss;
    return 'done';
  };
  await assert.rejects(lock.once('slot', lose), LockLostError);
  assert.equal(await recorded(client, path), null);
  const fail = async (lease) => {
    await lose(lease);
    throw new Error('mine');
  };
  await assert.rejects(lock.once('slot', fail), (error) => error.message === 'mine' && error.cause instanceof LockLostError);
  assert.equal(await recorded(client, path), null);
  assert.equal(await lock.once('slot', () => 'again'), 'again');
});

scenario('a body that releases the lease records nothing', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  await assert.rejects(new Mutex(client, path).once('slot', (lease) => lease.release()), NotHeldError);
  assert.equal(await recorded(client, path), null);
});

scenario('once re-enters the lock of a scope, and its body is a scope', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const lock = new Mutex(client, path);
  await lock.using(async (outer) => {
    assert.equal(await lock.once('slot', (lease) => lease.node), outer.node);
    assert.equal(await lock.once('slot', () => 'again'), null);
    outer.check();
  });
  const inner = () => lock.using((lease) => lease.node);
  assert.equal(await lock.once('next', async (lease) => (await inner()) === lease.node), true);
  const rigid = new Mutex(client, freshPath(), { reentrant: false });
  await rigid.using(() => assert.rejects(rigid.once('slot', () => 1, { timeout: 0 }), LockTimeoutError));
  await untilContenders(path, 0);
});

scenario('a timeout and a signal apply only to the wait', async (t) => {
  const [client, other] = [(await connected(t)).ref(), await connected(t)];
  const path = freshPath();
  const lock = new Mutex(client, path);
  const held = await new Mutex(other, path).acquire();
  for (const timeout of [0, 50]) await assert.rejects(lock.once('slot', () => 1, { timeout }), LockTimeoutError);
  const controller = new AbortController();
  const waiting = lock.once('slot', () => 1, { signal: controller.signal });
  await untilContenders(path, 2);
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await untilContenders(path, 1);
  await held.release();
  assert.equal(await recorded(client, path), null);
  const { signal } = new AbortController();
  assert.equal(await lock.once('slot', () => 1, { timeout: 5000, signal }), 1);
});

scenario('once a period', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const lock = new Mutex(client, path);
  assert.equal(await lock.oncePer(YEAR, (lease) => lease.state), 'held');
  assert.equal(await lock.oncePer(YEAR, () => 'again'), null);
  assert.equal((await recorded(client, path)).per, YEAR);
  // A period of another length is another slot.
  assert.equal(await lock.oncePer(2 * YEAR, () => 'other', { record: 'start' }), 'other');
});

scenario('a node that is no record is an error before the body', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  await createNode(`${path}.once`, Buffer.from('something else'));
  await assert.rejects(new Mutex(client, path).once('slot', () => assert.fail('it ran')), BadArgumentError);
  await untilContenders(path, 0);
});

scenario('arguments are checked before anything is sent', async (t) => {
  const client = await connected(t);
  const lock = new Mutex(client, freshPath());
  const body = () => assert.fail('it ran');
  const refused = [
    [() => lock.once('', body), /key: must not be empty/],
    [() => lock.once('a\n', body), /key: contains a control character/],
    [() => lock.once('é'.repeat(129), body), /key: is 258 bytes long/],
    [() => lock.once('a', body, { record: 'end' }), /record: must be 'body' or 'start'/],
    [() => lock.once('a', body, { timeout: -1 }), /timeout: must not be negative/],
    [() => lock.once('a', body, { recrod: 'end' }), /did you mean 'record'/],
    [() => lock.oncePer(999, body), /period: is 999ms, and must be at least 1s/],
    [() => lock.oncePer(NaN, body), /period: must not be negative or NaN/],
  ];
  for (const [call, problem] of refused) {
    await assert.rejects(call, (error) => error instanceof BadArgumentError && problem.test(error.message));
  }
  for (const call of [() => lock.once(5, body), () => lock.once('a', 5), () => lock.oncePer('1h', body)]) {
    await assert.rejects(call, TypeError);
  }
  assert.equal(client.stats().acquisitions, 0);
  const others = [new Semaphore(client, freshPath(), 2), ...Object.values(new ReadWriteLock(client, freshPath()))];
  for (const other of others) assert.equal(other.once, undefined);
});

scenario('a program in Python and one in Node share a slot', async (t) => {
  const client = (await connected(t)).ref();
  const path = freshPath();
  const program = `
import sys, zklock
print(zklock.Mutex(sys.argv[1], sys.argv[2]).once("slot", lambda lease: "ran"))`;
  const python = process.env.ZKLOCK_PYTHON ? resolve(home, process.env.ZKLOCK_PYTHON) : 'python3';
  const run = async () => (await promisify(execFile)(python, ['-c', program, hosts, path])).stdout.trim();
  const lock = new Mutex(client, path);
  const results = await Promise.all([run(), lock.once('slot', () => 'ran'), lock.once('slot', () => 'ran')]);
  assert.deepEqual(results.filter((result) => result === 'ran'), ['ran']);
});
