// Tests of the contenders that Node programs can list.

import assert from 'node:assert/strict';

import { Client, Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, createNode, freshPath, hosts, scenario, until, untilContenders, untilNobodyContends } from './support.mjs';

scenario('contenders are plain objects that do not change', async (t) => {
  const client = await connected(t);
  const { readLock, writeLock } = new ReadWriteLock(client, freshPath(), { label: 'catalogue' });
  const before = Date.now();
  const lease = await writeLock.acquire();
  const reader = readLock.acquire();
  await untilContenders(readLock.path, 2);
  const [first, second] = await readLock.contenders();
  assert.ok(Object.isFrozen(first) && Object.isFrozen(first.about));
  assert.equal(Object.getPrototypeOf(first), Object.prototype);
  const { data, about, ...facts } = first;
  assert.deepEqual(facts, {
    position: 0,
    node: lease.node,
    reader: false,
    sessionId: client.sessionId,
    fencingToken: lease.fencingToken,
    dataLength: data.length,
  });
  const { host, since, owner, ...rest } = about;
  const none = { cohort: undefined, linger: undefined };
  assert.deepEqual(rest, { pid: process.pid, language: 'node', label: 'catalogue', revoked: false, ...none });
  assert.ok(since instanceof Date && since >= before && since <= Date.now());
  assert.deepEqual(Object.keys(owner), ['number', 'name', 'process']);
  assert.ok(owner.number > 0 && owner.process > 0);
  assert.equal(owner.name, undefined);
  assert.ok(Buffer.isBuffer(data));
  assert.equal(JSON.parse(data).host, host);
  assert.deepEqual([second.position, second.reader], [1, true]);
  await lease.release();
  await (await reader).release();
  await untilNobodyContends(readLock);
});

scenario('contenders of other programs have the data that they wrote', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await createNode(mutex.path);
  await createNode(`${mutex.path}/lock-0000000000`, Buffer.from([0, 255, 10]));
  const [other] = await mutex.contenders();
  assert.deepEqual(other.data, Buffer.from([0, 255, 10]));
  assert.equal(other.about, undefined);
  assert.equal(await mutex.locked(), true);
});

scenario('locked is true for a lock that is taken, and for a semaphore without free permits', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  assert.equal(await mutex.locked(), false);
  await untilNobodyContends(mutex);
  await mutex.using(async () => assert.equal(await mutex.locked(), true));
  const semaphore = new Semaphore(client, freshPath(), 2);
  await semaphore.using(async () => {
    assert.equal(await semaphore.locked(), false);
    await semaphore.using(async () => {
      assert.equal(await semaphore.locked(), true);
      const contenders = await semaphore.contenders();
      assert.deepEqual(
        contenders.map(({ node }) => node.split('/').slice(0, -1).join('/')),
        [`${semaphore.path}/leases`, `${semaphore.path}/leases`],
      );
    });
  });
});

scenario('contender.node and lease.node are both what breakLock and revoke take', async (t) => {
  // While the client waits for the request, only `ref()` keeps the process alive.
  const client = (await connected(t)).ref();
  for (const lock of [new Mutex(client, freshPath()), new Semaphore(client, freshPath(), 2)]) {
    const lease = await lock.acquire();
    const [holder] = await lock.contenders();
    assert.equal(holder.node, lease.node);
    const asked = new Promise((resolve) => lease.onRevoke(resolve));
    await client.revoke(holder.node);
    assert.equal(await asked, lease);
    await client.breakLock(holder.node);
    await until('the loss', () => lease.state === 'lost');
    await untilNobodyContends(lock);
  }
});

scenario('below a chroot, nodes are seen from there', async (t) => {
  const root = freshPath();
  await createNode(root);
  const client = await Client.connect(`${hosts}${root}`);
  t.after(() => client.close());
  const mutex = new Mutex(client, '/locks/report');
  const lease = await mutex.acquire();
  const [{ node }] = await mutex.contenders();
  assert.equal(node, lease.node);
  assert.ok(node.startsWith('/locks/report/'), node);
  await client.breakLock(node);
  await until('the loss', () => lease.state === 'lost');
});

scenario('a closed client cannot list contenders', async () => {
  const client = await Client.connect(hosts);
  const mutex = new Mutex(client, freshPath());
  await client.close();
  await assert.rejects(mutex.locked(), { code: 'CLIENT_CLOSED' });
  await assert.rejects(mutex.contenders(), { code: 'CLIENT_CLOSED' });
});
