// Tests of the output of console.log and JSON.stringify for the library's objects.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import { Client, Election, Lock, MultiLock, Mutex, ReadWriteLock, Semaphore } from 'zklock';

import { connected, deleteNode, freshPath, hosts, scenario, until } from './support.mjs';

const reread = (value) => JSON.parse(JSON.stringify(value));

scenario('a lease shows its properties in the console, even when it is lost', async (t) => {
  const lease = await new Mutex(await connected(t), freshPath()).acquire();
  const { path, node, fencingToken, sessionId } = lease;
  const shown = `Lease {\n  path: '${path}',\n  node: '${node}',\n  fencingToken: ${fencingToken}n,\n  sessionId: ${sessionId}n,\n  state: `;
  assert.equal(inspect(lease), `${shown}'held'\n}`);
  assert.deepEqual(reread({ lease }).lease, {
    path,
    node,
    fencingToken: String(fencingToken),
    sessionId: String(sessionId),
    state: 'held',
  });
  await deleteNode(node);
  await until('the loss', () => lease.state === 'lost');
  assert.equal(inspect(lease), `${shown}'lost',\n  lossReason: 'node deleted'\n}`);
  assert.equal(inspect({ a: { b: { c: { lease } } } }, { depth: 2 }).includes('Lease'), false);
  assert.match(inspect({ a: { b: { lease } } }), /lease: \[Lease\]/);
});

scenario('locks and clients show their properties in the console', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  const mutex = new Mutex(client, path);
  const both = new ReadWriteLock(client, path);
  const slots = new Semaphore(client, path, 3);
  const shared = new Semaphore(client, path, { sharedCount: '/count' });
  const several = new MultiLock([mutex, slots].slice(0, 1));
  assert.equal(inspect(mutex), `Mutex { path: '${path}' }`);
  assert.equal(inspect(both), `ReadWriteLock { path: '${path}' }`);
  assert.equal(inspect(both.readLock), `Lock { path: '${path}' }`);
  assert.equal(inspect(slots), `Semaphore { path: '${path}', permits: 3 }`);
  assert.match(inspect(shared), /permits: \{ sharedCount: '\/count' \}/);
  assert.match(inspect(several), /^MultiLock \{ paths: \[/);
  assert.ok(mutex instanceof Lock && both.writeLock instanceof Lock && slots instanceof Lock);
  assert.deepEqual(reread([mutex, both, slots, several]), [{ path }, { path }, { path, permits: 3 }, { paths: [path] }]);
  const seen = inspect(client.on('lost', () => undefined));
  assert.match(seen, /^Client \{/);
  assert.ok(seen.includes(`sessionId: ${client.sessionId}n`) && !seen.includes('_events'), seen);
  const json = reread(client);
  assert.deepEqual(json, { hosts: client.hosts, state: 'connected', sessionId: String(client.sessionId) });
  assert.match(inspect(new Client(hosts)), /state: 'idle'/);
  for (const { prototype } of [Client, Lock, Mutex, MultiLock]) assert.doesNotThrow(() => inspect(prototype));
});

scenario('contenders show the data of other programs escaped, and convert to JSON', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath(), { label: 'a\u202eb' });
  const lease = await mutex.acquire();
  const [contender] = await mutex.contenders();
  assert.ok(inspect(contender).includes('a\\\\u{202e}b') && !inspect(contender).includes('\u202e'), inspect(contender));
  const { data, about, ...rest } = reread(contender);
  assert.deepEqual(rest, {
    position: 0,
    node: lease.node,
    reader: false,
    sessionId: String(client.sessionId),
    fencingToken: String(lease.fencingToken),
    dataLength: contender.dataLength,
  });
  assert.equal(new Date(about.since).getTime(), contender.about.since.getTime());
  assert.equal(about.pid, process.pid);
  assert.equal(Buffer.from(data, 'base64').toString(), contender.data.toString());
  assert.deepEqual(Object.keys(contender).includes('toJSON'), false);
});

scenario('a path that was given to a lock is escaped when it is shown', async (t) => {
  const client = await connected(t);
  const path = `${freshPath()}\u202e`;
  assert.ok(!inspect(new Mutex(client, path)).includes('\u202e'));
  assert.equal(reread(new Mutex(client, path)).path, path);
});

scenario('elections and candidates show their properties, and convert to JSON', async (t) => {
  const client = await connected(t);
  const election = new Election(client, freshPath(), { id: 'me' });
  const leadership = await election.campaign();
  const leader = await election.leader();
  assert.equal(leader.node, leadership.node);
  assert.deepEqual(await election.candidates(), [leader]);
  assert.deepEqual(reread(leader), {
    position: 0,
    id: 'me',
    node: leadership.node,
    sessionId: String(client.sessionId),
    fencingToken: String(leadership.fencingToken),
  });
  assert.deepEqual(reread(election), { path: election.path, id: 'me', isLeader: true });
  assert.match(inspect(election), /^Election \{/);
  assert.match(inspect(leadership), /state: 'held'/);
  await leadership.resign();
});
