// Tests of the arguments and the error messages of transactions.

import assert from 'node:assert/strict';
import { runInNewContext } from 'node:vm';

import { Mutex } from 'zklock';

import { connected, exists, freshPath, scenario } from './support.mjs';

const OUT_OF_RANGE = [-1, -0.5, 0.9, 2 ** 31, 2 ** 32, Infinity, -Infinity, NaN];
const NO_NUMBERS = ['0', null, 0n, {}, true];

scenario('versions that are out of range are refused, by check, setData and delete', async (t) => {
  const lease = await new Mutex(await connected(t), freshPath()).acquire();
  const path = freshPath();
  await lease.transaction().create(path, 'old').commit();
  const guards = [
    (version) => lease.transaction().check(path, version),
    (version) => lease.transaction().setData(path, 'new', version),
    (version) => lease.transaction().delete(path, version),
  ];
  for (const guard of guards) {
    for (const version of OUT_OF_RANGE) {
      const refused = { code: 'BAD_ARGUMENT', message: new RegExp(`^version: must be a whole number .* but is `) };
      assert.throws(() => guard(version), refused, String(version));
    }
    for (const version of NO_NUMBERS) assert.throws(() => guard(version), TypeError, String(version));
    // The node has version 0.
    await assert.rejects(guard(1).commit(), { code: 'TRANSACTION_FAILED' });
    await assert.rejects(guard(2 ** 31 - 1).commit(), { code: 'TRANSACTION_FAILED' });
  }
  assert.throws(() => lease.transaction().check(path), TypeError);
  assert.ok(await exists(path));
  await lease.transaction().check(path, 0).setData(path, 'new', 0).commit();
  await lease.transaction().setData(path, 'newer').check(path, 2).delete(path, 2).commit();
  assert.ok(!(await exists(path)));
});

scenario('bytes may come from another realm, as in test runners', async (t) => {
  const client = await connected(t);
  const lease = await new Mutex(client, freshPath()).acquire();
  const [path, foreign] = [freshPath(), runInNewContext('new Uint8Array([1, 2, 3])')];
  assert.ok(!(foreign instanceof Uint8Array));
  await lease.transaction().create(path, foreign).commit();
  assert.deepEqual([...(await client.get(path)).data], [1, 2, 3]);
  assert.throws(() => lease.transaction().create(path, [1, 2, 3]), TypeError);
});

scenario('a failed transaction names the operation in words', async (t) => {
  const lease = await new Mutex(await connected(t), freshPath()).acquire();
  const failed = lease.transaction().create(freshPath()).setData('/no/such/node', 'x').commit();
  const message = /failed: set the data of "\/no\/such\/node"/;
  await assert.rejects(failed, { code: 'TRANSACTION_FAILED', message, index: 1, path: '/no/such/node' });
});
