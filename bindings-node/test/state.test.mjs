// Tests of listeners for a client's state.

import assert from 'node:assert/strict';

import { BadArgumentError, Client } from 'zklock';

import { connected, hosts, run, scenario } from './support.mjs';

/** Collects a client's states until the client is closed. */
function collect(client) {
  const states = [];
  const closed = new Promise((resolve) => {
    client.on('state', (state) => {
      states.push(state);
      if (state === 'closed') resolve();
    });
  });
  return { states, closed };
}

scenario('each listener is notified when the client is closed', async () => {
  const client = await Client.connect(hosts);
  const first = collect(client);
  const second = collect(client);
  await client.close();
  await Promise.all([first.closed, second.closed]);
  assert.deepEqual(first.states, ['closed']);
  assert.deepEqual(second.states, ['closed']);
});

scenario('a removed listener is not called again, and may be added again', async () => {
  const client = await Client.connect(hosts);
  const heard = [];
  const listener = (state) => heard.push(state);
  assert.equal(client.on('state', listener).off('state', listener), client);
  const other = collect(client);
  client.off('state', () => {});
  await client.close();
  await other.closed;
  assert.deepEqual(heard, []);
});

scenario('an exception of a listener is uncaught, and the others are still called', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client } from 'zklock';
    process.on('uncaughtException', (error) => console.log(error.message));
    const client = await Client.connect();
    client.on('state', () => { throw new Error('on purpose'); });
    const heard = new Promise((resolve) => client.on('state', resolve));
    await client.close();
    console.log(await heard);`,
  );
  assert.deepEqual([code, stdout.trim().split('\n').sort(), stderr], [0, ['closed', 'on purpose'], '']);
});

scenario('listening does not keep the process alive', async () => {
  const { code, stdout, stderr } = await run(
    `import { Client } from 'zklock';
    (await Client.connect()).on('state', () => {});
    console.log('idle');`,
  );
  assert.deepEqual([code, stdout, stderr], [0, 'idle\n', '']);
});

scenario('other events, and listeners that are not functions, are refused', async (t) => {
  const client = await connected(t);
  for (const listen of ['on', 'once', 'addListener', 'prependListener', 'prependOnceListener']) {
    assert.throws(() => client[listen]('lsot', () => {}), BadArgumentError, listen);
    assert.throws(() => client[listen]('state', 'x'), TypeError, listen);
  }
});
