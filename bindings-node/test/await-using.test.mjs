// Tests of `await using` blocks. Such blocks are not scopes for re-entry. If an acquire inside a
// block waits for the lock that the block itself holds, the library logs a warning.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { clearInterval, setInterval } from 'node:timers';

import ts from 'typescript';
import * as zklock from 'zklock';

import { connected, freshPath, home, scenario, until, untilContenders } from './support.mjs';

const { MultiLock, Mutex, ReadWriteLock, off, on } = zklock;

const NAMED = 'an acquire waits for the `await using` block around it';

// The code is compiled because some supported Node versions do not have the syntax `await using`.
const target = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };

/** Returns an async function with the parameter `given` and this body. */
function compiled(body) {
  const { outputText } = ts.transpileModule(`export default async (given) => {${body}}`, { compilerOptions: target });
  return import(`data:text/javascript,${encodeURIComponent(outputText)}`).then((module) => module.default);
}

/** Collects, until the test ends, the warnings about acquires that wait for their own block. */
function named(context) {
  const records = [];
  let heard = () => undefined;
  const listener = (record) => {
    if (!record.message.startsWith(NAMED)) return;
    records.push(record);
    heard();
  };
  on('log', listener, { level: 'warn' });
  context.after(() => off('log', listener));
  return {
    records,
    next: () => new Promise((resolve) => (heard = resolve)),
    of: (path) => records.filter(({ fields }) => fields.path === path).length,
  };
}

scenario('an acquire in a block that holds the lock waits, and the log names it once', async (t) => {
  const [client, warned] = [await connected(t), named(t)];
  const mutex = new Mutex(client, freshPath());
  const block = await compiled(`
    await using lease = await given.mutex.acquire();
    await given.inside(lease);
  `);
  await block({
    mutex,
    inside: async (lease) => {
      const heard = warned.next();
      const controller = new AbortController();
      const helper = async () => mutex.using({ signal: controller.signal }, () => 'never');
      const waits = [helper(), helper()].map((wait) => assert.rejects(wait, { name: 'AbortError' }));
      await heard;
      const [{ level, message, fields }] = warned.records;
      assert.deepEqual([level, fields.path, `${fields.path}/${fields.node.split('/').at(-1)}`], ['warn', mutex.path, lease.node]);
      assert.match(message, /Pass \{ within: lease \} to the acquire, or hold the lock with using\(\)/);
      assert.match(zklock.dump(), new RegExp(`waits for ${mutex.path} .*, which this client holds`));
      controller.abort();
      await Promise.all(waits);
      // The log recommends `within`, and it works.
      await mutex.using({ within: lease }, (inner) => assert.equal(inner.node, lease.node));
      await assert.rejects(mutex.acquire({ timeout: 1500 }), { code: 'LOCK_TIMEOUT' });
    },
  });
  assert.equal(warned.records.length, 1);
  await untilContenders(mutex.path, 0);
});

scenario('the block on the page does not wait for itself', async (t) => {
  const [, snippet] = /```ts\n(.*?)```/s.exec(readFileSync(join(home, '../docs/node.md'), 'utf8'));
  const mutex = new Mutex(await connected(t), freshPath());
  let written = 0;
  const block = await compiled(`
    const { mutex, writeReport } = given;
    ${snippet}
    await nightly();
  `);
  await block({ mutex, writeReport: () => (written += 1) });
  assert.equal(written, 1);
  // Without `within`, the acquire waits for its own block.
  const waits = await compiled(`
    const { mutex, writeReport } = given;
    ${snippet.replace('{ within: lease }', '{ timeout: 50 }')}
    await nightly();
  `);
  await assert.rejects(waits({ mutex, writeReport: () => (written += 1) }), { code: 'LOCK_TIMEOUT' });
});

scenario('a wait for a block is named whatever the lock, and however it is acquired', async (t) => {
  const [client, warned] = [await connected(t), named(t)];
  const [first, second] = [new Mutex(client, freshPath()), new Mutex(client, freshPath())];
  const { readLock, writeLock } = new ReadWriteLock(client, freshPath());
  const block = await compiled(`
    await using both = await given.both.acquire();
    await using read = await given.readLock.acquire();
    await Promise.all(given.attempts().map((attempt) => given.rejects(attempt)));
  `);
  await block({
    both: new MultiLock([first, second]),
    readLock,
    attempts: () => [new MultiLock([second]), writeLock, first].map((lock) => lock.acquire({ timeout: 1500 })),
    rejects: (attempt) => assert.rejects(attempt, { code: 'LOCK_TIMEOUT' }),
  });
  assert.deepEqual([first, second, readLock].map(({ path }) => warned.of(path)), [1, 1, 1]);
});

scenario('contention in one process is not named: beside a block, after it, with using(), and of tries', async (t) => {
  const [client, warned] = [await connected(t), named(t)];
  const [mutex, other, scoped] = [1, 2, 3].map(() => new Mutex(client, freshPath()));
  const late = { code: 'LOCK_TIMEOUT' };
  const options = { timeout: 1500 };
  let begin;
  const began = new Promise((resolve) => (begin = resolve));
  // This function is called after the block's acquire, but before the block begins. So its acquire
  // is not inside the block, and waits for the lock without a warning.
  const beside = async () => {
    await began;
    await assert.rejects(mutex.acquire(options), late);
  };
  let waitedBeside;
  const block = await compiled(`
    await using lease = await given.mutex.acquire();
    given.begin();
    await given.inside();
  `);
  const inside = async () => {
    // For comparison: the log names this wait.
    await assert.rejects(mutex.acquire(options), late);
    assert.equal(await mutex.tryAcquire(), null);
    await waitedBeside;
  };
  const ending = await compiled(`
    {
      await using lease = await given.other.acquire();
    }
    const held = await given.elsewhere();
    await given.rejects(given.other.acquire({ timeout: 1500 }));
    await held.release();
  `);
  const elsewhere = () => new Mutex(client, other.path).acquire();
  await Promise.all([
    block({ mutex, begin, inside }),
    (waitedBeside = beside()),
    ending({ other, elsewhere, rejects: (attempt) => assert.rejects(attempt, late) }),
    scoped.using(() => scoped.using(options, () => assert.rejects(new Mutex(client, scoped.path, { reentrant: false }).acquire(options), late))),
  ]);
  // At this point, all warnings have been logged.
  assert.deepEqual([mutex, other, scoped].map(({ path }) => warned.of(path)), [1, 0, 0]);
});

scenario('the async context of a block does not keep its lease', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const timer = await (async () => {
    const lease = await mutex.acquire();
    // Reading this property begins a block: `await using` and `AsyncDisposableStack.use` read it.
    assert.equal(typeof lease[Symbol.asyncDispose], 'function');
    return setInterval(() => undefined, 2 ** 31 - 1);
  })();
  await until('the lease is collected and released', () => (globalThis.gc(), client.health().holds.length === 0));
  clearInterval(timer);
});
