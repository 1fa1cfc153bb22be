// Tests of a client's health report, and of dumps that show why a program hangs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client, Mutex, dump, dumpOn } from 'zklock';

import { connected, freshPath, home, hosts, scenario, until } from './support.mjs';

scenario('the health of a client that never connected has no waits and no holds', () => {
  const health = new Client('127.0.0.1:1').health();
  assert.deepEqual(health, {
    state: 'idle', sessionId: 0n, sessionTimeout: 10_000, remaining: 0, responsive: true, waits: [], holds: [],
  });
});

scenario('holds and waits are reported with their positions, nodes and ages', async (t) => {
  const [client, other, path] = [await connected(t), await connected(t), freshPath()];
  const lease = await new Mutex(client, path, { label: 'nightly' }).acquire();
  const second = new Mutex(other, path).acquire();
  await until('it waits', () => other.health().waits[0]?.behind !== undefined);
  const { state, sessionId, server, lastProof, remaining, holds: [hold] } = client.health();
  assert.deepEqual([state, sessionId, server], ['connected', client.sessionId, hosts]);
  assert.ok(lastProof >= 0 && remaining > 0 && remaining <= client.sessionTimeout / 2);
  assert.deepEqual([hold.path, hold.mode, hold.label, hold.levels, hold.state], [path, 'mutex', 'nightly', 1, 'held']);
  assert.deepEqual([hold.node, hold.fencingToken], [lease.node, lease.fencingToken]);
  assert.ok(hold.age > 0 && hold.remaining > 0);
  const [wait] = other.health().waits;
  assert.deepEqual([wait.path, wait.mode, wait.position, wait.behind], [path, 'mutex', 1, lease.node]);
  assert.ok(dump().includes(`holds ${path} (mutex, nightly) for `));
  assert.ok(dump().includes(`behind ${lease.node}`));
  await lease.release();
  await (await second).release();
  assert.deepEqual(client.health().holds, []);
});

scenario('a signal shows what a program waits for whose JavaScript is blocked', async (t) => {
  const [client, path] = [await connected(t), freshPath()];
  const lease = await new Mutex(client, path).acquire();
  const file = join(mkdtempSync(join(tmpdir(), 'zklock-')), 'dump.txt');
  const script = `
    const { Client, Mutex, dumpOn } = require('zklock');
    const { openSync, closeSync } = require('node:fs');
    const file = openSync(${JSON.stringify(file)}, 'w');
    dumpOn('SIGUSR2', file);
    closeSync(file);
    Client.connect(${JSON.stringify(hosts)}).then((client) => {
      new Mutex(client, ${JSON.stringify(path)}).acquire().catch(() => undefined);
      console.log('ready');
      for (;;);
    });`;
  const child = spawn(process.execPath, ['-e', script], { cwd: home, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  await new Promise((resolve) => child.stdout.once('data', resolve));
  await until('a dump', () => {
    child.kill('SIGUSR2');
    return readFileSync(file, 'utf8').includes(`behind ${lease.node}`);
  });
  assert.ok(readFileSync(file, 'utf8').includes(`waits for ${path} (mutex) for `));
  assert.equal(child.exitCode, null);
  await lease.release();
});

scenario('signals and files that cannot be used are refused', () => {
  assert.throws(() => dumpOn('SIGKILL'), { code: 'BAD_ARGUMENT' });
  assert.throws(() => dumpOn('SIGNONE'), { code: 'BAD_ARGUMENT' });
  assert.throws(() => dumpOn('SIGUSR2', -1), { code: 'BAD_ARGUMENT' });
  const closed = openSync('/dev/null');
  closeSync(closed);
  assert.throws(() => dumpOn('SIGUSR2', closed), { code: 'BAD_ARGUMENT' });
});

scenario('the health of a client is JSON, with strings for numbers that a double cannot hold', async (t) => {
  const client = await connected(t);
  const lease = await new Mutex(client, freshPath()).acquire();
  const health = JSON.parse(JSON.stringify(client.health()));
  assert.equal(health.sessionId, String(client.sessionId));
  assert.equal(health.holds[0].fencingToken, String(lease.fencingToken));
  assert.deepEqual(JSON.parse(JSON.stringify(client.health().holds[0])).fencingToken, String(lease.fencingToken));
  assert.deepEqual(Object.keys(client.health()).includes('toJSON'), false);
});
