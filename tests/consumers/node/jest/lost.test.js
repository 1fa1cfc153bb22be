const { once } = require('node:events');

const { Client, LockLostError, Mutex } = require('zklock');
const { Server } = require('zklock/testing');

let client, server;

beforeAll(async () => {
  server = await Server.start();
  client = await Client.connect(server.hosts);
});

afterAll(async () => {
  await client.close();
  await server.stop();
});

test('a report notices that its lock is lost', async () => {
  expect(await server.tree()).toStrictEqual({});
  const report = new Mutex(client, '/locks/report').using(({ signal }) =>
    Promise.all([once(signal, 'abort'), server.expire(client)]),
  );
  await expect(report).rejects.toThrow(LockLostError);
  await expect(server.expire('/locks/report')).rejects.toThrow(TypeError);
});
