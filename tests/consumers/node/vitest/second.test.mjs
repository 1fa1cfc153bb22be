import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client } from 'zklock';

import { contend } from './contend.mjs';

let client;

beforeAll(async () => {
  client = await Client.connect(); // to ZKLOCK_HOSTS
});

// Closes the session, and frees locks that the tests did not release.
afterAll(() => client.close());

test('one file at a time is inside', { timeout: 60_000 }, async () => {
  await expect(contend(client, 'second', 'first')).resolves.toBe(10);
});
