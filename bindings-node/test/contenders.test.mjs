// Contenders, in JavaScript's terms.

import assert from 'node:assert/strict';

import { Client, Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, createNode, freshPath, hosts, scenario, untilContenders } from './support.mjs';

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
    node: lease.node.split('/').at(-1),
    reader: false,
    sessionId: client.sessionId,
    fencingToken: lease.fencingToken,
    dataLength: data.length,
  });
  const { host, since, ...rest } = about;
  assert.deepEqual(rest, { pid: process.pid, language: 'node', label: 'catalogue' });
  assert.ok(since instanceof Date && since >= before && since <= Date.now());
  assert.ok(Buffer.isBuffer(data));
  assert.equal(JSON.parse(data).host, host);
  assert.deepEqual([second.position, second.reader], [1, true]);
  await lease.release();
  await (await reader).release();
  assert.deepEqual(await readLock.contenders(), []);
});

scenario('of others there is what they wrote', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  await createNode(mutex.path);
  await createNode(`${mutex.path}/lock-0000000000`, Buffer.from([0, 255, 10]));
  const [other] = await mutex.contenders();
  assert.deepEqual(other.data, Buffer.from([0, 255, 10]));
  assert.equal(other.about, undefined);
  assert.equal(await mutex.locked(), true);
});

scenario('locked is true for what is taken, and for a semaphore without free permits', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  assert.equal(await mutex.locked(), false);
  assert.deepEqual(await mutex.contenders(), []);
  await mutex.using(async () => assert.equal(await mutex.locked(), true));
  const semaphore = new Semaphore(client, freshPath(), 2);
  await semaphore.using(async () => {
    assert.equal(await semaphore.locked(), false);
    await semaphore.using(async () => {
      assert.equal(await semaphore.locked(), true);
      const contenders = await semaphore.contenders();
      assert.deepEqual(
        contenders.map(({ node }) => node.split('/')[0]),
        ['leases', 'leases'],
      );
    });
  });
});

scenario('a closed client cannot ask', async () => {
  const client = await Client.connect(hosts);
  const mutex = new Mutex(client, freshPath());
  await client.close();
  await assert.rejects(mutex.locked(), { code: 'CLIENT_CLOSED' });
  await assert.rejects(mutex.contenders(), { code: 'CLIENT_CLOSED' });
});
