// Tests of the error properties that programs can read in addition to the message.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';

import {
  BadArgumentError,
  Client,
  ConnectionFailedError,
  Election,
  LockLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  Semaphore,
} from 'zklock';

import { connected, freshPath, hosts, scenario, until } from './support.mjs';

const SURROGATE = 'half \ud83d';

async function failed(servers, connectTimeout = 1000) {
  const [end] = await Promise.allSettled([Client.connect(servers, { connectTimeout })]);
  assert.ok(end.reason instanceof ConnectionFailedError, String(end.reason ?? end.value));
  return end.reason;
}

scenario('one server is the cause of a failed connection', async () => {
  const error = await failed('127.0.0.1:1');
  const [report] = error.servers;
  assert.deepEqual([report.server, report.problem], ['127.0.0.1:1', 'refused']);
  assert.match(report.detail, /^refused the connection: /);
  assert.ok(error.cause instanceof Error);
  assert.equal(error.cause.message, `${report.server} ${report.detail}`);
  assert.equal(error.cause.code, 'ECONNREFUSED');
  assert.ok(error.message.includes(error.cause.message));
  assert.ok(!Object.keys(error).includes('cause'), 'as the constructor of Error has it');
});

scenario('several servers are an AggregateError', async (t) => {
  const web = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  t.after(() => web.close());
  const address = `127.0.0.1:${web.address().port}`;
  const error = await failed(`127.0.0.1:1,-no-such-host.invalid:2181,${address}`);
  assert.deepEqual(
    error.servers.map(({ problem }) => problem),
    ['refused', 'unknown host', 'not zookeeper'],
  );
  assert.ok(error.cause instanceof AggregateError);
  assert.deepEqual(
    error.cause.errors.map(({ code }) => code),
    ['ECONNREFUSED', 'ENOTFOUND', undefined],
  );
  assert.match(error.message, /-no-such-host\.invalid:2181 could not be resolved/);
  assert.match(error.message, new RegExp(`${address} misbehaved: .*web server`));
});

scenario('a timeout error has the contenders that block the lock', async (t) => {
  const client = await connected(t, { label: 'nightly' });
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  let end;
  // The timeout can expire before the server has replied.
  await until('it knows who is in the way', async () => {
    [end] = await Promise.allSettled([mutex.acquire({ timeout: 300 })]);
    assert.ok(end.reason instanceof LockTimeoutError);
    return end.reason.blockers.length > 0;
  });
  assert.match(end.reason.message, /another owner in this client \(nightly\), number \d+, since .*, which holds it/);
  const [holder] = end.reason.blockers;
  assert.deepEqual([holder.about.pid, holder.about.label, holder.position], [process.pid, 'nightly', 0]);
  assert.equal(holder.sessionId, lease.sessionId);
  assert.deepEqual(end.reason.servers, []);
  assert.equal(end.reason.reason, 'taken');
  // JSON and structured clones keep an error's own properties.
  assert.equal(JSON.parse(JSON.stringify({ ...end.reason, blockers: [] })).reason, 'taken');
  assert.equal(structuredClone({ ...end.reason }).reason, 'taken');
  await lease.release();
});

scenario('connectTimeout applies only to an attempt that does not wait', async (t) => {
  const client = new Client('127.0.0.1:1');
  t.after(() => client.close());
  const [mutex, semaphore] = [new Mutex(client, '/a'), new Semaphore(client, '/s', 2)];
  const options = { connectTimeout: 300 };
  for (const attempt of [
    () => mutex.tryAcquire(options),
    () => mutex.tryUsing(options, () => undefined),
    () => mutex.acquire({ timeout: 0, ...options }),
    () => new MultiLock([mutex]).tryAcquire(options),
    () => semaphore.acquireMany(1, { timeout: 0, ...options }),
    () => new Election(client, '/e').campaign({ timeout: 0, ...options }),
  ]) {
    await assert.rejects(attempt, { name: 'ConnectionFailedError', message: /within \d+ms/ });
  }
  await assert.rejects(mutex.acquire({ timeout: 300 }), { name: 'LockTimeoutError', reason: 'unreachable' });
  await assert.rejects(mutex.acquire(options), { name: 'BadArgumentError', message: /^connectTimeout: / });
  await assert.rejects(mutex.tryAcquire({ connectTimeout: 0 }), { name: 'BadArgumentError' });
});

scenario('a loss has its reason, wherever it is reported', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const inScope = mutex.using(async (lease) => {
    const { signal } = lease;
    await client.close();
    assert.equal(signal.reason?.reason ?? lease.lossReason, 'client closed');
    assert.throws(() => lease.check(), { reason: 'client closed' });
  });
  const [end] = await Promise.allSettled([inScope]);
  assert.ok(end.reason instanceof LockLostError, String(end.reason));
  assert.equal(end.reason.reason, 'client closed');
});

scenario('a client has the granted session timeout, and complete hosts', async (t) => {
  const client = await connected(t, { sessionTimeout: 3_600_000 });
  assert.ok(client.sessionTimeout > 0 && client.sessionTimeout < 3_600_000);
  assert.equal(client.hosts, hosts);
  const lease = await new Mutex(client, freshPath()).acquire();
  assert.equal(lease.sessionTimeout, client.sessionTimeout);
  const lazy = new Client('zk1, [::1]:7/app', { sessionTimeout: 7000 });
  assert.deepEqual([lazy.hosts, lazy.sessionTimeout], ['zk1:2181,[::1]:7/app', 7000]);
});

scenario('a lone surrogate is refused with the name of the argument, and a password is not shown', async (t) => {
  const client = await connected(t);
  const refused = (name, call) =>
    assert.rejects(async () => call(), (error) => {
      assert.ok(error instanceof BadArgumentError, String(error));
      assert.equal(error.message, `${name}: contains a lone surrogate, which is not a character`);
      return true;
    });
  await refused('path', () => new Mutex(client, `/${SURROGATE}`));
  await refused('path', () => client.get(`/${SURROGATE}`));
  await refused('sharedCount', () => new Semaphore(client, '/s', { sharedCount: `/${SURROGATE}` }));
  await refused('label', () => new Mutex(client, '/l', { label: SURROGATE }));
  await refused('node', () => client.breakLock(`/${SURROGATE}`));
  await refused('hosts', () => Client.connect(SURROGATE));
  await refused('sasl: password', () => Client.connect(hosts, { sasl: { user: 'a', password: SURROGATE } }));
});

scenario('hosts of the environment are named', async () => {
  const before = process.env.ZKLOCK_HOSTS;
  process.env.ZKLOCK_HOSTS = 'zk1/app,zk2/app';
  try {
    await assert.rejects(Client.connect(), {
      name: 'BadArgumentError',
      message: /write "zk1,zk2\/app", in "zk1\/app,zk2\/app" \(from the environment variable ZKLOCK_HOSTS\)$/,
    });
  } finally {
    if (before === undefined) delete process.env.ZKLOCK_HOSTS;
    else process.env.ZKLOCK_HOSTS = before;
  }
});
