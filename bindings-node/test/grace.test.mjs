// Tests of the option `grace`, which makes a client report a lost lease some time before another
// client can get the lock.

import assert from 'node:assert/strict';
import { once } from 'node:events';

import { Client, Mutex, ReadWriteLock, Semaphore } from 'zklock';
import { Server } from 'zklock/testing';

import { freshPath, scenario } from './support.mjs';

const sessionTimeout = 6000;

scenario('a body has time to stop while its node is there', async (context) => {
  const server = await Server.start();
  context.after(() => server.stop());
  const client = await Client.connect(server.hosts, { sessionTimeout });
  context.after(() => client.close());
  const path = freshPath();
  const held = await new Mutex(client, `${path}/plain`).acquire();
  const lease = await new Mutex(client, path, { grace: 1000 }).acquire();
  assert.ok(lease.remaining <= sessionTimeout / 2 - 1000);
  const aborted = once(lease.signal, 'abort');
  server.pause();
  await aborted;
  assert.equal(lease.lossReason, 'term ended');
  // Another lease of this session, without a grace, is still held.
  assert.notEqual(held.state, 'lost');
  server.resume();
});

scenario('every lock has a grace of at most a sixth of the session time-out', async (context) => {
  const server = await Server.start();
  context.after(() => server.stop());
  const client = await Client.connect(server.hosts, { sessionTimeout });
  context.after(() => client.close());
  const kinds = {
    mutex: (options) => new Mutex(client, '/m', options),
    read: (options) => new ReadWriteLock(client, '/rw', options).readLock,
    write: (options) => new ReadWriteLock(client, '/rw', options).writeLock,
    semaphore: (options) => new Semaphore(client, '/s', 1, options),
  };
  for (const [kind, make] of Object.entries(kinds)) {
    const lease = await make({ grace: 1000 }).acquire();
    assert.ok(lease.remaining <= sessionTimeout / 2 - 1000, kind);
    await lease.release();
    const refused = { code: 'BAD_ARGUMENT', message: /^grace: must be at most 1s/ };
    await assert.rejects(make({ grace: 1001 }).acquire(), refused, kind);
    assert.throws(() => make({ grace: -1 }), { code: 'BAD_ARGUMENT', message: /^grace: / });
    assert.throws(() => make({ grace: '1' }), { name: 'TypeError' });
  }
});
