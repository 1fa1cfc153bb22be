// Tests of revocation that apply only to Node.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';

import { Mutex } from 'zklock';

import { connected, freshPath, scenario, until, untilContenders } from './support.mjs';

scenario('a listener is called with the lease, unless it was removed', async (t) => {
  // The test waits only for the request, so `ref()` must keep the process alive.
  const client = (await connected(t)).ref();
  const lease = await new Mutex(client, freshPath()).acquire();
  let forgotten = false;
  lease.onRevoke(() => {
    forgotten = true;
  })();
  const asked = new Promise((resolve) => {
    lease.onRevoke(resolve);
  });
  await client.revoke(lease.node);
  assert.equal(await asked, lease);
  assert.equal(lease.state, 'held');
  // The node still contains the holder's description.
  const lock = new Mutex(client, lease.path);
  while (!(await lock.contenders())[0].about?.revoked);
  assert.equal((await lock.contenders())[0].about.pid, process.pid);
  // A listener that is added after the request is called too. The removed listener would have been
  // called before it.
  await new Promise((resolve) => {
    lease.onRevoke(resolve);
  });
  assert.equal(forgotten, false);
  await lease.release();
});

scenario('a broken lock aborts the signal, and the reason can be read', async (t) => {
  const client = (await connected(t)).ref();
  const lease = await new Mutex(client, freshPath()).acquire();
  assert.equal(lease.lossReason, undefined);
  const aborted = new Promise((resolve) => {
    lease.signal.addEventListener('abort', resolve);
  });
  await client.breakLock(lease.node);
  await aborted;
  assert.equal(lease.lossReason, 'node deleted');
  await untilContenders(lease.path, 0);
});

scenario('wrong arguments are refused', async (t) => {
  const client = await connected(t);
  const lease = await new Mutex(client, freshPath()).acquire();
  await assert.rejects(client.revoke(1), TypeError);
  await assert.rejects(client.breakLock(), TypeError);
  await assert.rejects(client.revoke('/no/node'), { code: 'BAD_ARGUMENT' });
  assert.throws(() => lease.onRevoke('listener'), TypeError);
  await lease.release();
});

scenario('a listener and the signal keep their async context', async (t) => {
  const client = (await connected(t)).ref();
  const [context, heard] = [new AsyncLocalStorage(), []];
  const mutex = new Mutex(client, freshPath());
  const lease = await context.run('the holder', () => mutex.acquire());
  for (const name of ['first', 'second']) {
    context.run(name, () => lease.onRevoke(() => heard.push([name, context.getStore()])));
  }
  await context.run('who asks', () => client.revoke(lease.node));
  await until('both are called', () => heard.length === 2);
  assert.deepEqual(heard.sort(), [['first', 'first'], ['second', 'second']]);
  const aborted = new Promise((resolve) => {
    context.run('the signal', () => lease.signal).addEventListener('abort', () => resolve(context.getStore()));
  });
  await client.breakLock(lease.node);
  assert.equal(await aborted, 'the signal');
});

scenario('a listener in a scope is in the scope, and keeps no lease', async (t) => {
  const client = (await connected(t)).ref();
  const mutex = new Mutex(client, freshPath());
  await mutex.using(async (lease) => {
    const entered = new Promise((resolve, reject) => {
      lease.onRevoke(() => void mutex.using(({ node }) => resolve(node)).catch(reject));
    });
    await client.revoke(lease.node);
    assert.equal(await entered, lease.node);
  });
  await (async () => {
    void mutex.using((lease) => {
      const stop = lease.onRevoke(() => lease.check());
      lease.onRevoke(() => stop());
      return new Promise(() => undefined);
    });
  })();
  await until('the scope is collected', () => (globalThis.gc(), client.health().holds.length === 0));
});
