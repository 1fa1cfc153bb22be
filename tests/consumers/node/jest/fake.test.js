const { once } = require('node:events');

const { Client, LockLostError, Mutex } = require('zklock');
const { Server } = require('zklock/testing');

// Timers are fake before the package is loaded: many projects set `fakeTimers.enableGlobally`.
let client, server;

beforeAll(async () => {
  server = await Server.start();
  client = await Client.connect(server.hosts);
});

afterAll(async () => {
  await client.close();
  await server.stop();
});

test('timers are fake', () => {
  expect(jest.now()).toBe(Date.now());
  const ran = jest.fn();
  setTimeout(ran, 1000);
  jest.advanceTimersByTime(1000);
  expect(ran).toHaveBeenCalledTimes(1);
});

test('locks are acquired and released, and waits end, while timers are fake', async () => {
  const mutex = new Mutex(client, '/locks/report');
  const lease = await mutex.acquire();
  const waits = mutex.acquire();
  await expect(mutex.acquire({ timeout: 20 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
  await lease.release();
  await (await waits).release();
});

test('losses are reported while timers are fake', async () => {
  const reported = new Promise((resolve) => client.once('lost', resolve));
  const report = new Mutex(client, '/locks/report').using(({ signal }) =>
    Promise.all([once(signal, 'abort'), server.expire(client)]),
  );
  await expect(report).rejects.toThrow(LockLostError);
  await expect(reported).resolves.toMatchObject({ lossReason: 'session expired' });
});
