// One build for both module systems.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import * as esm from 'zklock';

import { connected, freshPath, scenario } from './support.mjs';

const cjs = createRequire(import.meta.url)('zklock');

scenario('both entries export the same names and the same classes', () => {
  assert.deepEqual(Object.keys(esm).sort(), Object.keys(cjs).sort());
  for (const [name, value] of Object.entries(esm)) assert.equal(value, cjs[name], name);
});

scenario('a client of one entry works with a mutex of the other, and so do scopes', async (t) => {
  const client = await connected(t);
  const path = freshPath();
  await new cjs.Mutex(client, path).using(async (outer) => {
    assert.ok(outer instanceof esm.Lease);
    const inner = await new esm.Mutex(client, path).tryAcquire();
    assert.equal(inner.node, outer.node);
    await inner.release();
  });
});
