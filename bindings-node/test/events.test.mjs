// Tests of the client as an EventEmitter.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter, on, once } from 'node:events';

import { Client, Lease, MultiLock, Mutex, Semaphore } from 'zklock';

import { connected, deleteNode, freshPath, hosts, run, scenario, until } from './support.mjs';

scenario('events.once and events.on work, and nothing is left of them', async () => {
  const client = new Client(hosts);
  assert.ok(client instanceof EventEmitter);
  const first = once(client, 'state');
  const states = on(client, 'state');
  await client.ready();
  assert.deepEqual(await first, ['connecting']);
  assert.deepEqual((await states.next()).value, ['connecting']);
  assert.deepEqual((await states.next()).value, ['connected']);
  await states.return();
  assert.deepEqual(client.eventNames(), []);
  const [closed] = await Promise.all([once(client, 'state'), client.close()]);
  assert.deepEqual(closed, ['closed']);
});

scenario('a listener for once is called once, in order, and the methods return the client', async () => {
  const client = new Client(hosts);
  const heard = [];
  const note = (what) => (state) => heard.push([what, state]);
  const removed = note('removed');
  assert.equal(client.once('state', note('once')), client);
  assert.equal(client.addListener('state', note('added')), client);
  assert.equal(client.prependListener('state', note('first')), client);
  assert.equal(client.prependOnceListener('state', note('very first')), client);
  assert.equal(client.once('state', removed).off('state', removed).listenerCount('state'), 4);
  await client.ready();
  await until('the states', () => heard.length >= 6);
  assert.deepEqual(heard, [
    ['very first', 'connecting'],
    ['first', 'connecting'],
    ['once', 'connecting'],
    ['added', 'connecting'],
    ['first', 'connected'],
    ['added', 'connected'],
  ]);
  client.removeAllListeners();
  await client.close();
  assert.equal(heard.length, 6);
});

scenario('listeners that are added after all others were removed receive later events', async () => {
  const client = await Client.connect(hosts);
  client.on('state', () => undefined).removeAllListeners();
  const closed = once(client, 'state');
  await client.close();
  assert.deepEqual(await closed, ['closed']);
});

scenario('a client reports the loss of leases from before and after its listener was added', async (t) => {
  const client = await connected(t);
  const lock = () => new Mutex(client, freshPath());
  const released = await lock().acquire();
  const before = await lock().acquire();
  const lost = [];
  client.on('lost', function (lease) {
    assert.equal(this, client);
    lost.push(lease);
  });
  client.on('lost', () => undefined);
  const after = await lock().acquire();
  const permits = await new Semaphore(client, freshPath(), 2).acquireMany(2);
  const several = await new MultiLock([lock(), lock()]).acquire();
  const kept = await lock().acquire();
  await released.release();
  const gone = [before, after, ...permits, ...several];
  for (const { node } of gone) await deleteNode(node);
  await until('all losses', () => lost.length >= gone.length);
  assert.deepEqual(new Set(lost), new Set(gone));
  assert.ok(lost.every((lease) => lease instanceof Lease && lease.lossReason === 'node deleted'));
  assert.equal(kept.state, 'held');
  await client.close();
  await until('the end', () => lost.length > gone.length);
  assert.deepEqual(lost.slice(gone.length), [kept]);
  assert.equal(kept.lossReason, 'client closed');
});

scenario('events.once reports a loss, and each lease is reported once', async (t) => {
  const client = await connected(t);
  const lease = await new Mutex(client, freshPath()).acquire();
  const received = [];
  // A listener alone does not keep the process alive.
  const next = once(client.ref(), 'lost');
  client.on('lost', (lost) => received.push(lost));
  await deleteNode(lease.node);
  assert.deepEqual(await next, [lease]);
  const late = [];
  client.on('lost', (lost) => late.push(lost));
  await client.close();
  assert.deepEqual([received, late], [[lease], []]);
});

scenario('an exception of a listener is uncaught, and the other listeners still receive the loss', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client, Mutex } from 'zklock';
    process.on('uncaughtException', (error) => console.log(error.message));
    const client = await Client.connect();
    const lease = await new Mutex(client, process.argv[1]).acquire();
    client.on('lost', () => { throw new Error('on purpose'); });
    const heard = new Promise((resolve) => client.once('lost', resolve));
    await client.close();
    console.log(await heard === lease);`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout.trim().split('\n').sort(), stderr], [0, ['on purpose', 'true'], '']);
});

scenario('listening keeps neither the process alive nor a lease held nor a client open', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client, Mutex } from 'zklock';
    const other = await Client.connect();
    const path = process.argv[1];
    await (async () => {
      const client = await Client.connect();
      client.on('lost', () => undefined).on('state', () => undefined);
      await new Mutex(client, path).acquire();
    })();
    const waiting = new Mutex(other, path).acquire();
    const collecting = setInterval(gc, 20);
    await waiting;
    console.log('released');
    clearInterval(collecting);
    await (async () => {
      (await Client.connect()).on('lost', () => undefined).on('state', () => undefined);
    })();
    console.log('end');`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'released\nend\n', '']);
});

scenario('a client does not keep released leases', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const ended = [];
  const registry = new FinalizationRegistry(() => ended.push(1));
  client.on('lost', () => undefined);
  for (let turn = 0; turn < 300; turn++) {
    const lease = await mutex.acquire();
    registry.register(lease, turn);
    await lease.release();
  }
  await until('the leases are collected', () => (globalThis.gc(), ended.length >= 290));
});

scenario('listeners of a client run in the async context in which they were added', async (t) => {
  const client = (await connected(t)).ref();
  const [context, heard] = [new AsyncLocalStorage(), []];
  const note = (lease) => heard.push([context.getStore(), lease.path]);
  const lost = new Mutex(client, freshPath());
  const ways = ['on', 'addListener', 'prependListener', 'once', 'prependOnceListener'];
  for (const way of ways) context.run(way, () => client[way]('lost', note));
  // A function that is added in two async contexts is called in both.
  assert.equal(client.listenerCount('lost'), ways.length);
  assert.deepEqual(new Set(client.listeners('lost')), new Set([note]));
  const lease = await context.run('the holder', () => lost.acquire());
  await deleteNode(lease.node);
  await until('all are called', () => heard.length >= ways.length);
  assert.deepEqual(heard.map(([store]) => store).sort(), [...ways].sort());
  assert.equal(client.listenerCount('lost'), 3);
  for (let left = 2; left >= 0; left--) assert.equal(client.off('lost', note).listenerCount('lost'), left);
  const states = [];
  context.run('of the state', () => client.on('state', (state) => states.push([context.getStore(), state])));
  await client.close();
  assert.deepEqual(states, [['of the state', 'closed']]);
});

scenario('a listener of a client is an owner of no lock, and keeps no lease', async (t) => {
  const client = (await connected(t)).ref();
  const [outer, lost] = [new Mutex(client, freshPath()), new Mutex(client, freshPath())];
  let tried;
  await outer.using(async () => {
    const received = new Promise((resolve) => {
      client.once('lost', () => {
        tried = outer.tryAcquire();
        resolve();
      });
    });
    await deleteNode((await lost.acquire()).node);
    await received;
    assert.equal(await tried, null);
  });
  await new Promise((begin) => {
    void outer.using((lease) => {
      client.on('lost', () => undefined);
      lease.check();
      begin();
      return new Promise(() => undefined);
    });
  });
  await until('the scope is collected', () => (globalThis.gc(), client.health().holds.length === 0));
});
