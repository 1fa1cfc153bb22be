const { Client } = require('zklock');

const { contend } = require('./contend');

let client;

beforeAll(async () => {
  client = await Client.connect(); // to ZKLOCK_HOSTS
});

// Closes the session, and frees locks that the tests did not release.
afterAll(() => client.close());

test('one file at a time is inside', async () => {
  await expect(contend(client, 'first', 'second')).resolves.toBe(10);
}, 60_000);
