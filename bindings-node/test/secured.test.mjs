// Tests of the environment variables that set client options, and of the credentials file.

import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client, Mutex } from 'zklock';

import { connected, freshPath, hosts, scenario } from './support.mjs';

/** Runs a function with these environment variables. */
async function withEnvironment(variables, body) {
  const before = Object.keys(variables).map((name) => [name, process.env[name]]);
  try {
    Object.assign(process.env, variables);
    return await body();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

function credentials(mode = 0o600) {
  const file = join(mkdtempSync(join(tmpdir(), 'zklock-')), 'login');
  writeFileSync(file, 'digest:app:secret\n', { mode: 0o600 });
  chmodSync(file, mode);
  return file;
}

scenario('the environment secures a client that is made from the defaults', async (context) => {
  const path = freshPath();
  const variables = { ZKLOCK_AUTH_FILE: credentials(), ZKLOCK_ACL: 'creator', ZKLOCK_SESSION_TIMEOUT: '7s' };
  const client = await withEnvironment(variables, () => connected(context));
  assert.equal(client.sessionTimeout, 7000);
  const lock = new Mutex(client, path);
  assert.equal(lock.client, client);
  await lock.using(async () => {
    const stranger = await connected(context);
    await assert.rejects(new Mutex(stranger, path).acquire(), { code: 'AUTH_FAILED' });
  });
  // The file can also be set with an option.
  const given = await connected(context, { authFile: variables.ZKLOCK_AUTH_FILE });
  await new Mutex(given, path).using(() => undefined);
});

scenario('an option wins over a variable, and errors name the variable', async (context) => {
  const variables = { ZKLOCK_AUTH_FILE: '/no/such/file', ZKLOCK_ACL: 'all', ZKLOCK_SESSION_TIMEOUT: 'soon' };
  await withEnvironment(variables, async () => {
    const options = { auth: [], acl: 'open', sessionTimeout: 6000 };
    const client = await connected(context, options);
    assert.equal(client.sessionTimeout, 6000);
    for (const [option, variable] of [['auth', 'ZKLOCK_AUTH_FILE'], ['acl', 'ZKLOCK_ACL'], ['sessionTimeout', 'ZKLOCK_SESSION_TIMEOUT']]) {
      const rest = { ...options, [option]: undefined };
      const message = new RegExp(`\\(from the environment variable ${variable}\\)$`);
      assert.throws(() => new Client(hosts, rest), { code: 'BAD_ARGUMENT', message });
    }
  });
  const authFile = credentials(0o644);
  assert.throws(() => new Client(hosts, { authFile }), { code: 'BAD_ARGUMENT', message: /^authFile: .* contains credentials, and users other/ });
});
