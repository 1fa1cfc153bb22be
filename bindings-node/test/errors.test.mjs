// Tests of error classes, error codes and rejected arguments.

import assert from 'node:assert/strict';

import * as zklock from 'zklock';
import { Client, ConnectionFailedError, Mutex, ReadWriteLock, ZkLockError } from 'zklock';

import { connected, freshPath, hosts, scenario } from './support.mjs';

const CODES = {
  AuthFailedError: 'AUTH_FAILED',
  BadArgumentError: 'BAD_ARGUMENT',
  ClientClosedError: 'CLIENT_CLOSED',
  ConnectionFailedError: 'CONNECTION_FAILED',
  ForkedError: 'FORKED',
  LockLostError: 'LOCK_LOST',
  LockTimeoutError: 'LOCK_TIMEOUT',
  NotHeldError: 'NOT_HELD',
  PermitsMismatchError: 'PERMITS_MISMATCH',
  SequenceExhaustedError: 'SEQUENCE_EXHAUSTED',
  TransactionFailedError: 'TRANSACTION_FAILED',
  UpgradeRefusedError: 'UPGRADE_REFUSED',
};

const DETAILS = {
  ConnectionFailedError: ['servers'],
  LockLostError: ['reason'],
  LockTimeoutError: ['reason', 'blockers', 'deadlock', 'servers'],
  TransactionFailedError: ['index', 'path'],
};

scenario('each kind is a class with a name and its stable code', () => {
  for (const [name, code] of Object.entries(CODES)) {
    const error = new zklock[name]('why');
    assert.ok(error instanceof ZkLockError && error instanceof Error);
    assert.equal(error.name, name);
    assert.equal(error.code, code);
    assert.equal(String(error), `${name}: why`);
    assert.deepEqual(Object.keys(error), ['code', ...(DETAILS[name] ?? [])]);
  }
  const exported = Object.keys(zklock).filter((name) => name.endsWith('Error') && name !== 'ZkLockError');
  assert.deepEqual(exported.sort(), Object.keys(CODES));
});

scenario('a stack begins with the called method, followed by the caller', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const cases = {
    'Mutex.acquire': () => mutex.acquire({ timeout: 10 }),
    'Lock.acquire': async () => mutex.acquire({ timeout: -1 }),
    'Semaphore.acquireMany': async () => new zklock.Semaphore(client, freshPath(), 1).acquireMany('2'),
    'Lease.release': async () => lease.release({ timout: 5 }),
    'new Mutex': async () => new Mutex(client, 'not absolute'),
    'Lease.check': async () => (await lease.release(), lease.check()),
  };
  for (const [called, attempt] of Object.entries(cases)) {
    const whoAsked = async () => {
      await attempt();
    };
    const { stack } = await whoAsked().then(assert.fail, (error) => error);
    const [first, ...rest] = stack.split('\n').slice(stack.split('\n').findIndex((line) => /^ {4}at /.test(line)));
    assert.match(first, new RegExp(`^    at (async )?(\\w+\\.)?${called.replace(/^\w+\./, '')} `), stack);
    assert.match(rest.join('\n'), /errors\.test\.mjs/, stack);
  }
});

scenario('an error names its caller in the stack', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  async function whoAsked() {
    await mutex.acquire({ timeout: 10 });
  }
  await assert.rejects(whoAsked(), (error) => /whoAsked/.test(error.stack));
  await lease.release();
});

function refused(code, name) {
  return (error) => {
    if (code === 'TypeError') assert.equal(error.constructor, TypeError, error.stack);
    else assert.equal(error.code, code, error.stack);
    assert.ok(error.message.startsWith(`${name}: `), error.message);
    return true;
  };
}

scenario('connect refuses bad arguments by name', async () => {
  const cases = [
    ['TypeError', 'hosts', 1],
    ['TypeError', 'hosts', null],
    ['TypeError', 'options', hosts, null],
    ['TypeError', 'options', hosts, 10],
    ['TypeError', 'sessionTimeout', hosts, { sessionTimeout: '10' }],
    ['TypeError', 'sessionTimeout', hosts, { sessionTimeout: 10n }],
    ['TypeError', 'connectTimeout', hosts, { connectTimeout: null }],
    ['TypeError', 'label', hosts, { label: 1 }],
    ['BAD_ARGUMENT', 'hosts', ''],
    ['BAD_ARGUMENT', 'hosts', 'a:b'],
    ['BAD_ARGUMENT', 'hosts', 'a b'],
    ['BAD_ARGUMENT', 'hosts', 'a/x/'],
    ...[Number.NaN, -1, 0, Infinity].map((value) => ['BAD_ARGUMENT', 'sessionTimeout', hosts, { sessionTimeout: value }]),
    ...[Number.NaN, -1, 0].map((value) => ['BAD_ARGUMENT', 'connectTimeout', hosts, { connectTimeout: value }]),
  ];
  for (const [code, name, ...args] of cases) {
    await assert.rejects(Client.connect(...args), refused(code, name));
  }
});

scenario('mutexes and read/write locks refuse bad arguments by name', async (t) => {
  const client = await connected(t);
  const cases = [
    ['TypeError', 'client', undefined, '/a'],
    ['TypeError', 'client', {}, '/a'],
    ['TypeError', 'client', hosts, '/a'],
    ['TypeError', 'path', client],
    ['TypeError', 'path', client, 1],
    ['TypeError', 'options', client, '/a', null],
    ['TypeError', 'label', client, '/a', { label: 1 }],
    ['TypeError', 'naming', client, '/a', { naming: 1 }],
    ['BAD_ARGUMENT', 'naming', client, '/a', { naming: 'etcd' }],
    ...['', 'a', '/', '/a/', '//a', '/a/../b', '/a\0b'].map((path) => ['BAD_ARGUMENT', 'path', client, path]),
  ];
  for (const [code, name, ...args] of cases) {
    assert.throws(() => new Mutex(...args), refused(code, name));
    assert.throws(() => new ReadWriteLock(...args), refused(code, name));
  }
  assert.throws(() => new Mutex(client, '/a', { reentrant: 1 }), refused('TypeError', 'reentrant'));
});

scenario('acquire, using and release refuse bad arguments by name', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const cases = [
    ['TypeError', 'options', 5],
    ['TypeError', 'options', null],
    ['TypeError', 'timeout', { timeout: '5' }],
    ['TypeError', 'timeout', { timeout: null }],
    ['TypeError', 'signal', { signal: {} }],
    ['TypeError', 'signal', { signal: new AbortController() }],
    ['TypeError', 'within', { within: {} }],
    ['TypeError', 'within', { within: null }],
    ['BAD_ARGUMENT', 'timeout', { timeout: -1 }],
    ['BAD_ARGUMENT', 'timeout', { timeout: Number.NaN }],
  ];
  for (const [code, name, options] of cases) {
    await assert.rejects(mutex.acquire(options), refused(code, name));
    await assert.rejects(
      mutex.using(options, () => undefined),
      refused(code, name),
    );
  }
  await assert.rejects(mutex.using(), refused('TypeError', 'body'));
  await assert.rejects(mutex.using({}, 5), refused('TypeError', 'body'));
  const lease = await mutex.acquire();
  await assert.rejects(lease.release(null), refused('TypeError', 'options'));
  await assert.rejects(lease.release({ wait: 1 }), refused('TypeError', 'wait'));
  lease.check();
  await lease.release();
});

scenario('internal classes cannot be constructed by a program', () => {
  assert.throws(() => new zklock.Lock({}), TypeError);
  assert.throws(() => new zklock.Lease(), TypeError);
  assert.throws(() => new zklock.Leases(), TypeError);
  assert.throws(() => new zklock.Leases([]), TypeError);
});

scenario('a timeout of zero does not wait, and a timeout of infinity waits forever', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire({ timeout: 0 });
  await assert.rejects(mutex.acquire({ timeout: 0 }), { code: 'LOCK_TIMEOUT' });
  const waiting = mutex.acquire({ timeout: Infinity });
  await lease.release();
  await (await waiting).release();
});

scenario('an unreachable server causes a ConnectionFailedError within the connect timeout', async () => {
  const before = performance.now();
  await assert.rejects(Client.connect('127.0.0.1:1', { connectTimeout: 300 }), ConnectionFailedError);
  assert.ok(performance.now() - before < 5000);
});

scenario('after close, every method except close rejects with ClientClosedError', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const waiting = assert.rejects(mutex.acquire(), { code: 'CLIENT_CLOSED' });
  await client.close();
  await waiting;
  assert.equal(client.state, 'closed');
  await assert.rejects(mutex.acquire(), { code: 'CLIENT_CLOSED' });
  await assert.rejects(mutex.tryAcquire(), { code: 'CLIENT_CLOSED' });
  await lease.release();
  await client.close();
  await client[Symbol.asyncDispose]();
});
