import { expect, test } from 'vitest';
import { Client, Mutex } from 'zklock';

// This test leaves a client open and a lock held. vitest must exit nevertheless.
test('what a test leaves open does not hold up the run', async () => {
  const client = await Client.connect();
  const lease = await new Mutex(client, `${process.env.LOCK_PATH}-unclosed`).acquire();
  expect(lease.state).toBe('held');
});
