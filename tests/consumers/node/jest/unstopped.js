// Run by name only: a server that is left running keeps jest from ending.

const { Server } = require('zklock/testing');

test('forgets to stop its server', async () => {
  const server = await Server.start();
  expect(await server.tree()).toEqual({});
});
