// A closed client leaves no open handles that `jest --detectOpenHandles` would report.

import assert from 'node:assert/strict';

import { freshPath, run, scenario } from './support.mjs';

scenario('the handle in the event loop exists only while a client is open', async () => {
  const { code, stdout, stderr } = await run(
    `import { createHook } from 'node:async_hooks';
    import { setTimeout as sleep } from 'node:timers/promises';
    const handles = new Set();
    createHook({
      init: (id, type) => type === 'napi_rs_threadsafe_function' && handles.add(id),
      destroy: (id) => handles.delete(id),
    }).enable();
    const { Client, ClientClosedError, Mutex } = await import('zklock');
    // Node reports the end of a handle later.
    const untilNone = async () => {
      for (let left = 500; left > 0 && handles.size > 0; left -= 1) await sleep(10);
    };
    const found = [handles.size];
    for (let round = 0; round < 2; round += 1) {
      const [first, second] = [await Client.connect(), await Client.connect()];
      const mutex = new Mutex(first, process.argv[1]);
      const lease = await mutex.acquire();
      lease.signal;
      await second.close();
      await sleep(50);
      found.push(handles.size);
      await first.close();
      // An acquire on a closed client also rejects.
      const refused = await mutex.acquire().catch((error) => error);
      if (!(refused instanceof ClientClosedError)) throw refused;
      await untilNone();
      found.push(handles.size);
    }
    console.log(found.join(' '));`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, '0 1 0 1 0\n', '']);
});

scenario('watches for a loss and for a revocation request end with the release of the lease', async () => {
  const { code, stdout, stderr } = await run(
    `import { createHook } from 'node:async_hooks';
    import { setTimeout as sleep } from 'node:timers/promises';
    const handles = new Set();
    createHook({
      init: (id, type) => type === 'napi_rs_threadsafe_function' && handles.add(id),
      destroy: (id) => handles.delete(id),
    }).enable();
    const { Client, Mutex } = await import('zklock');
    const client = await Client.connect();
    const lease = await new Mutex(client, process.argv[1]).acquire();
    lease.signal;
    lease.onRevoke(() => undefined);
    await lease.release();
    await client.close();
    // Node reports the end of a handle later.
    for (let left = 500; left > 0 && handles.size > 0; left -= 1) await sleep(10);
    // The lease still exists, and so would a watch that was not ended by the release.
    console.log(handles.size, lease.state);`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, '0 released\n', '']);
});
