// Revocation: what is particular to Node.

import assert from 'node:assert/strict';

import { Mutex } from 'zklock';

import { connected, freshPath, scenario, untilContenders } from './support.mjs';

scenario('a listener is called with the lease, unless it is taken back', async (t) => {
  // Only the request is awaited here.
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
  // A late listener is called too, after the others would have been.
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
