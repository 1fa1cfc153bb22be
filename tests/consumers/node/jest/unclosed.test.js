const { Client, Mutex } = require('zklock');

// This test closes and releases nothing. The run must end nevertheless.
test('what a test leaves open does not hold up the run', async () => {
  const client = await Client.connect();
  const lease = await new Mutex(client, `${process.env.LOCK_PATH}-unclosed`).acquire();
  expect(lease.state).toBe('held');
});
