// A program that uses the package on Node, Bun and Deno. Prints a line for each check that passes.
//
//   RUNTIME smoke.mjs PATH

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';

import {
  Client,
  ConnectionFailedError,
  Election,
  LockLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  NotHeldError,
  ReadWriteLock,
  Semaphore,
  dump,
  on,
} from 'zklock';
import { Server } from 'zklock/testing';

const path = process.argv[2];
const client = (await Client.connect()).ref(); // to ZKLOCK_HOSTS
const other = await Client.connect();
const mutex = new Mutex(client, `${path}/mutex`);
const theirs = new Mutex(other, mutex.path);

const checks = {
  async 'a lock excludes and times out'() {
    const lease = await mutex.acquire();
    assert.equal(typeof lease.fencingToken, 'bigint');
    assert.equal(await theirs.tryAcquire(), null);
    await assert.rejects(theirs.acquire({ timeout: 50 }), LockTimeoutError);
    const next = theirs.acquire();
    await lease.release();
    await (await next).release();
    await assert.rejects(lease.release(), NotHeldError);
  },
  async 'a scope is entered again, whatever it awaits'() {
    await mutex.using(async (outer) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      await mutex.using((inner) => assert.equal(inner.node, outer.node));
      await Promise.all([1, 2].map(() => mutex.using(() => undefined)));
    });
  },
  async 'an abort gives up'() {
    await theirs.using(async () => {
      await assert.rejects(mutex.acquire({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
    });
  },
  async 'locks of all kinds'() {
    const { readLock, writeLock } = new ReadWriteLock(client, `${path}/rw`);
    await readLock.using(() => assert.rejects(writeLock.acquire(), { code: 'UPGRADE_REFUSED' }));
    const semaphore = new Semaphore(client, `${path}/semaphore`, 2);
    const leases = await semaphore.acquireMany(2);
    assert.equal(await semaphore.tryAcquire(), null);
    await leases.release();
    await new MultiLock([mutex, writeLock]).using(({ length }) => assert.equal(length, 2));
    const election = new Election(client, `${path}/election`, { id: 'one' });
    await election.using(async () => assert.equal((await election.leader()).id, 'one'));
    await client.request(`${path}/web`, { mode: 'shared' }, (lease) => assert.equal(lease.mode, 'read'));
  },
  async 'a loss aborts the signal, ends the scope and is reported, each in its async context'() {
    const context = new AsyncLocalStorage();
    const reported = new Promise((resolve) => {
      context.run('listener', () => client.once('lost', (lease) => resolve([context.getStore(), lease.lossReason])));
    });
    const scope = mutex.using(async (lease) => {
      await other.breakLock(lease.node);
      await once(lease.signal, 'abort');
      lease.signal.throwIfAborted();
    });
    await assert.rejects(scope, LockLostError);
    assert.deepEqual(await reported, ['listener', 'node deleted']);
  },
  async 'a revocation is reported'() {
    const lease = await mutex.acquire();
    const asked = new Promise((resolve) => lease.onRevoke(resolve));
    await other.revoke(lease.node);
    assert.equal(await asked, lease);
    await lease.release();
  },
  async 'a block of await using that is waited for is named'() {
    const named = new Promise((resolve) => {
      on('log', ({ fields, message }) => message.includes('await using') && resolve(fields.path), { level: 'warn' });
    });
    const lease = await mutex.acquire();
    const dispose = lease[Symbol.asyncDispose]; // as `await using` does
    const controller = new AbortController();
    const waits = mutex.acquire({ signal: controller.signal });
    assert.equal(await named, mutex.path);
    controller.abort();
    await assert.rejects(waits, { name: 'AbortError' });
    await dispose.call(lease);
  },
  async 'a transaction writes while the lock is held'() {
    await mutex.using((lease) => lease.transaction().create(`${path}/written`, 'by the holder').commit());
    assert.equal(String((await client.get(`${path}/written`)).data), 'by the holder');
  },
  async 'reports are shown and are JSON'() {
    await mutex.using(async () => {
      assert.equal(JSON.parse(JSON.stringify(client.health())).holds[0].path, mutex.path);
      assert.ok(dump().includes(mutex.path));
    });
    assert.ok(client.stats().acquisitions > 0);
    assert.match(`${(await theirs.contenders()).length}`, /^\d+$/);
  },
  async 'no server is an error with its cause'() {
    const nowhere = Client.connect('127.0.0.1:1', { connectTimeout: 100 });
    await assert.rejects(nowhere, (error) => error instanceof ConnectionFailedError && error.cause.code === 'ECONNREFUSED');
  },
  async 'the server for tests'() {
    const server = await Server.start();
    const own = await Client.connect(server.hosts);
    const scope = new Mutex(own, '/locks/own').using(({ signal }) => Promise.all([once(signal, 'abort'), server.expire(own)]));
    await assert.rejects(scope, LockLostError);
    await own.close();
    await server.stop();
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
await other.close();
// This client stays open and holds a lock. With `unref`, it does not keep the process alive, and
// the exit frees the lock.
await mutex.acquire();
client.unref();
console.log('end');
