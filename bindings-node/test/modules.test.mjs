// ES modules and CommonJS share one build. These tests also load the build more than once.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import * as esm from 'zklock';

import { connected, freshPath, home, run, scenario, untilContenders } from './support.mjs';

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

// A program that uses two instances of the package. It does not release its last locks, so they
// must become free when the process exits.
const BOTH = `
  const path = process.argv[2];
  const clients = [await second.Client.connect(), await first.Client.connect()];
  const locks = [new second.Mutex(clients[0], path), new first.Mutex(clients[1], path)];
  const lease = await locks[0].acquire();
  const waiting = locks[1].acquire();
  if (await locks[1].tryAcquire() !== null) throw new Error('acquired twice');
  await lease.release();
  await (await waiting).release();
  await locks[1].using(async (outer) => {
    if ((await locks[1].tryAcquire()).node !== outer.node) throw new Error('not entered');
    if (await locks[0].tryAcquire() !== null) throw new Error('entered by another instance');
  });
  for (const zklock of [first, second]) {
    try { new zklock.Mutex(clients[zklock === first ? 0 : 1], path); } catch (error) { console.log(error.message); }
    try { new zklock.Mutex(clients[zklock === first ? 1 : 0], ''); } catch (error) { console.log(error.code, error instanceof zklock.BadArgumentError); }
  }
  const held = [await new second.Mutex(clients[0], path + '/2').acquire(), await new first.Mutex(clients[1], path + '/1').acquire()];
  console.log(held.map(({ state }) => state).join(' '));
  process.exit(0);
`;

async function checkBoth(load, home) {
  const path = freshPath();
  const source = `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url); ${load}; ${BOTH}`;
  const { code, stdout, stderr } = await run(source, { args: [home, path] });
  const refused = 'client: must be a Client of this copy of zklock, but is object\nBAD_ARGUMENT true\n';
  assert.deepEqual([code, stdout, stderr], [0, `${refused}${refused}held held\n`, '']);
  await untilContenders(path, 0);
}

scenario('two instances of one copy work side by side, as after a test runner discards its modules', async () => {
  const load = `
    const first = require('zklock');
    for (const module of Object.keys(require.cache)) delete require.cache[module];
    const second = require('zklock');
  `;
  await checkBoth(load, home);
});

scenario('two copies of the package work side by side', async (t) => {
  const copy = mkdtempSync(join(tmpdir(), 'zklock-copy-'));
  t.after(() => rmSync(copy, { recursive: true }));
  for (const part of ['package.json', 'dist', 'addon']) cpSync(join(home, part), join(copy, part), { recursive: true });
  await checkBoth(`const first = require('zklock'), second = require(process.argv[1])`, copy);
});

scenario('modules that run in a separate realm have their own error classes', async () => {
  const { code, stdout, stderr } = await run(
    `import { createRequire } from 'node:module';
    import { readFileSync } from 'node:fs';
    import { dirname, resolve } from 'node:path';
    import vm from 'node:vm';
    const outer = createRequire(import.meta.url);
    const context = vm.createContext({ AbortController, AbortSignal, process, setInterval, clearInterval });
    const cache = new Map();
    function load(file) {
      if (cache.has(file)) return cache.get(file).exports;
      const module = { exports: {} };
      cache.set(file, module);
      const inner = (name) => {
        if (!name.startsWith('.') || name.endsWith('/addon') && name.startsWith('..')) return outer(name.startsWith('.') ? resolve(dirname(file), name) : name);
        return load(resolve(dirname(file), name + '.js'));
      };
      vm.compileFunction(readFileSync(file, 'utf8'), ['require', 'module', 'exports'], { parsingContext: context })(inner, module, module.exports);
      return module.exports;
    }
    const zklock = load(resolve('dist/index.js'));
    const client = await zklock.Client.connect();
    try { new zklock.Mutex(client, ''); } catch (error) { console.log(error instanceof zklock.BadArgumentError, error instanceof Error); }
    const mutex = new zklock.Mutex(client, process.argv[1]);
    await mutex.using(async () => console.log(await mutex.locked()));
    await client.close();`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'true false\ntrue\n', '']);
});
