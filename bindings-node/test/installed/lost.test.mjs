import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import { Client, LockLostError, Mutex } from 'zklock';
import { Server } from 'zklock/testing';

test('a report notices that its lock is lost', async (t) => {
  const server = await Server.start();
  const client = await Client.connect(server.hosts);
  t.after(() => client.close().then(() => server.stop()));
  const report = new Mutex(client, '/locks/report').using(({ signal }) =>
    Promise.all([once(signal, 'abort'), server.expire(client)]),
  );
  await assert.rejects(report, LockLostError);
});
