// Run by name only, because a running server keeps jest from exiting.

const { Server } = require('zklock/testing');

test('forgets to stop its server', async () => {
  const server = await Server.start();
  expect(await server.tree()).toEqual({});
});
