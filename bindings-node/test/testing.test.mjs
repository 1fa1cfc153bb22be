// Tests of `zklock/testing`: an in-process server whose failures tests control.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { Worker } from 'node:worker_threads';

import { BadArgumentError, Client, ConnectionFailedError, LockLostError, LockTimeoutError, Mutex } from 'zklock';
import { Server } from 'zklock/testing';

import { run, scenario, sleep, until } from './support.mjs';

const PATH = '/locks/report';
/** An ID that no session has: the smallest possible one. */
const NOBODY = -(2n ** 63n);

/**
 * Clients of each server. They must be closed before their server stops; otherwise, each would wait
 * for a reply.
 */
const clients = new Map();

/** Returns another client of a server. It is closed at the end of the test. */
async function another(server, options) {
  const client = await Client.connect(server.hosts, options);
  clients.get(server).push(client);
  return client;
}

/** Returns a server and a client. Both are closed at the end of the test. */
async function pair(t, options) {
  const server = await Server.start();
  clients.set(server, []);
  t.after(async () => {
    await Promise.all(clients.get(server).map((client) => client.close()));
    await server.stop();
  });
  const client = await another(server, options);
  return { server, client, mutex: new Mutex(client, PATH) };
}

/** Resolves when the lease is lost. */
const loss = (lease) => (lease.signal.aborted ? undefined : once(lease.signal, 'abort'));

const contenders = async (server) => Object.keys(await server.tree()).filter((path) => path.startsWith(`${PATH}/`));

async function refuses(hosts) {
  const [host, port] = hosts.split(':');
  const socket = connect(Number(port), host);
  const error = await Promise.race([once(socket, 'connect').then(() => undefined), once(socket, 'error').then(([error]) => error)])
    .catch((error) => error);
  socket.destroy();
  return error?.code === 'ECONNREFUSED';
}

scenario('clients lock on a server as they do on ZooKeeper', async (t) => {
  const { server, client, mutex } = await pair(t);
  assert.match(server.hosts, /^127\.0\.0\.1:\d+$/);
  assert.equal(client.hosts, server.hosts);
  const lease = await mutex.acquire();
  const other = new Mutex(await another(server), PATH);
  assert.equal(await other.tryAcquire(), null);
  const waiting = other.acquire();
  await until('two contenders', async () => (await contenders(server)).length === 2);
  await lease.release();
  const next = await waiting;
  assert.ok(next.fencingToken > lease.fencingToken);
  await next.release();
});

scenario('servers have ports and nodes of their own', async (t) => {
  const { server, client, mutex } = await pair(t);
  const other = await pair(t);
  assert.notEqual(server.hosts, other.server.hosts);
  const leases = await Promise.all([mutex.acquire(), other.mutex.acquire()]);
  assert.deepEqual(leases.map(({ state }) => state), ['held', 'held']);
  assert.equal(await other.server.expire(client), client.sessionId === other.client.sessionId);
});

scenario('an expired client loses its lock, and no node is left when the call resolves', async (t) => {
  const { server, client, mutex } = await pair(t);
  const lease = await mutex.acquire();
  const next = new Mutex(await another(server), PATH);
  const ended = client.sessionId;
  const lost = loss(lease);
  assert.deepEqual(await contenders(server), [lease.node]);
  assert.equal(await server.expire(client), true);
  assert.deepEqual(await contenders(server), []);
  await (await next.acquire({ timeout: 0 })).release();
  await lost;
  assert.ok(lease.signal.reason instanceof LockLostError);
  assert.deepEqual([lease.state, lease.lossReason], ['lost', 'session expired']);
  // The client opens a new session.
  await (await mutex.acquire()).release();
  assert.notEqual(client.sessionId, ended);
  assert.equal(await server.expire(ended), false);
});

for (const [name, whose] of [
  ['a client', ({ client }) => client],
  ['a lease', ({ lease }) => lease],
  ['an id', ({ client }) => client.sessionId],
  ['a contender', async ({ mutex }) => (await mutex.contenders())[0]],
]) {
  scenario(`the session is that of ${name}`, async (t) => {
    const { server, client, mutex } = await pair(t);
    const lease = await mutex.acquire();
    const session = await whose({ client, mutex, lease });
    assert.equal(await server.disconnect(session), true);
    await until('the connection is back', () => client.state === 'connected' && lease.state === 'held');
    const lost = loss(lease);
    assert.equal(await server.expire(session), true);
    await lost;
  });
}

scenario('an unknown session is reported by the result, not by an error', async (t) => {
  const { server } = await pair(t);
  for (const nobody of [NOBODY, 1n, 2n ** 63n - 1n]) {
    assert.equal(await server.expire(nobody), false);
    assert.equal(await server.disconnect(nobody), false);
  }
});

scenario('a client that is disconnected keeps its session and its lock', async (t) => {
  const { server, client, mutex } = await pair(t);
  const lease = await mutex.acquire();
  const { sessionId } = client;
  const states = [];
  client.on('state', (state) => states.push(state));
  assert.equal(await server.disconnect(client), true);
  await until('the client is back', () => states.at(-1) === 'connected' && lease.state === 'held');
  assert.equal(states.length, 2);
  assert.deepEqual([client.sessionId, lease.state], [sessionId, 'held']);
  assert.deepEqual(await contenders(server), [lease.node]);
  await lease.release();
  assert.deepEqual(await contenders(server), []);
});

scenario('a paused server answers no client, and expires no session', async (t) => {
  const { server, mutex } = await pair(t);
  const watched = await another(server, { sessionTimeout: 1000 });
  const lease = await new Mutex(watched, PATH).acquire();
  await server.pause();
  const answer = mutex.locked();
  assert.equal(await Promise.race([answer, sleep(300).then(() => 'silence')]), 'silence');
  await assert.rejects(Client.connect(server.hosts, { connectTimeout: 2000 }), (error) => {
    assert.ok(error instanceof ConnectionFailedError);
    return error.servers[0].problem === 'silent';
  });
  // The session timeout has passed, but the paused server has not deleted the node. The holder has
  // already given up the lease.
  assert.deepEqual(await contenders(server), [lease.node]);
  assert.equal(lease.lossReason, 'term ended');
  await server.resume();
  assert.equal(await answer, true);
});

scenario('requests to a paused server are answered when it resumes', async (t) => {
  const { server, mutex } = await pair(t);
  await server.pause();
  await assert.rejects(mutex.acquire({ timeout: 200 }), LockTimeoutError);
  const waiting = mutex.acquire();
  await server.pause();
  await server.resume();
  await server.resume();
  const lease = await waiting;
  assert.deepEqual(await contenders(server), [lease.node]);
});

scenario('every round trip takes at least the latency', async (t) => {
  const { server, mutex } = await pair(t);
  const trip = async () => {
    const start = performance.now();
    await mutex.locked();
    return performance.now() - start;
  };
  await trip();
  await server.latency(150);
  assert.ok((await trip()) >= 149);
  await server.latency(0);
  // The machine might be busy, so only the fastest of several attempts counts.
  let quickest = Infinity;
  for (let count = 0; count < 20 && quickest >= 100; count += 1) quickest = Math.min(quickest, await trip());
  assert.ok(quickest < 100, `${quickest} ms`);
});

scenario('the tree has all nodes with their data, but ZooKeeper\'s own', async (t) => {
  const { server, client, mutex } = await pair(t);
  assert.deepEqual(await server.tree(), {});
  const lease = await mutex.acquire();
  await client.setSharedCount('/settings/slots', 5);
  await lease.transaction().create('/bytes', Buffer.from([0, 255])).commit();
  const tree = await server.tree();
  assert.deepEqual(Object.keys(tree), ['/bytes', '/locks', PATH, lease.node, '/settings', '/settings/slots']);
  assert.deepEqual([tree['/bytes'], tree['/settings/slots']], [Buffer.from([0, 255]), Buffer.from([0, 0, 0, 5])]);
  assert.equal(JSON.parse(tree[lease.node].toString()).language, 'node');
  assert.equal(Object.getPrototypeOf(tree), Object.prototype);
});

scenario('a stopped server frees its port and drops its nodes, and another server can use the port', async (t) => {
  const { server, mutex } = await pair(t, { sessionTimeout: 1000 });
  const lease = await mutex.acquire();
  const port = Number(server.hosts.split(':')[1]);
  await Promise.all([server.stop(), server.stop()]);
  await server.stop();
  assert.ok(await refuses(server.hosts));
  const calls = ['expire', 'disconnect', 'pause', 'resume', 'latency', 'tree'];
  for (const call of calls) {
    const refused = { name: 'Error', message: 'the server was stopped' };
    await assert.rejects(server[call](call === 'latency' ? 0 : NOBODY), refused, call);
  }
  assert.equal(server.ref().hosts, `127.0.0.1:${port}`);
  const next = await Server.start({ port });
  t.after(() => next.stop());
  assert.equal(next.hosts, server.hosts);
  assert.deepEqual(await contenders(next), []);
  // The new server does not know the client's session, so the client loses its lease.
  await loss(lease);
  await (await mutex.acquire()).release();
});

scenario('`await using` stops a server', async () => {
  const server = await Server.start();
  await server[Symbol.asyncDispose]();
  assert.ok(await refuses(server.hosts));
  await server[Symbol.asyncDispose]();
});

scenario('calls take effect in their order, awaited or not', async (t) => {
  const { server, mutex } = await pair(t);
  await (await mutex.acquire()).release();
  const many = await Promise.all(Array.from({ length: 20 }, () => another(server)));
  const calls = many.flatMap((client) => [server.expire(client), server.expire(client)]);
  assert.deepEqual(await Promise.all(calls), many.flatMap(() => [true, false]));
  // Each call runs on any free thread of the pool, so calls could run in the wrong order. A hundred
  // rounds are enough to detect that.
  for (let count = 0; count < 100; count += 1) {
    const brief = await Server.start();
    const tree = brief.tree();
    const stopped = brief.stop();
    await assert.rejects(brief.tree(), { message: 'the server was stopped' });
    assert.deepEqual(await tree, {});
    await stopped;
  }
});

scenario('a call that fails does not end those that follow', async (t) => {
  const { server } = await pair(t);
  const failing = server.latency(-1);
  const following = server.tree();
  await assert.rejects(failing, BadArgumentError);
  assert.deepEqual(await following, {});
});

scenario('an unavailable port is an error in the form of node:net errors', async (t) => {
  const { server } = await pair(t);
  const port = Number(server.hosts.split(':')[1]);
  await assert.rejects(Server.start({ port }), (error) => {
    assert.match(error.message, new RegExp(`^cannot listen on ${server.hosts}: .*in use`, 'i'));
    assert.match(error.stack, /testing\.test\.mjs/);
    const { code, syscall, address } = error;
    assert.deepEqual([code, syscall, address, error.port], ['EADDRINUSE', 'listen', '127.0.0.1', port]);
    return true;
  });
});

scenario('arguments are checked', async (t) => {
  const { server } = await pair(t);
  for (const port of ['2181', null, true]) await assert.rejects(Server.start({ port }), TypeError);
  for (const port of [-1, 1.5, 65_536, NaN]) {
    await assert.rejects(Server.start({ port }), { code: 'BAD_ARGUMENT', message: /^port: .* 0 to 65535, but is/ });
  }
  await assert.rejects(Server.start({ ports: 1 }), { code: 'BAD_ARGUMENT', message: /did you mean 'port'/ });
  await assert.rejects(Server.start(2181), TypeError);
  for (const call of ['expire', 'disconnect']) {
    for (const session of [undefined, null, 'abc', 1, {}, { sessionId: 1 }, { sessionId: '1' }]) {
      await assert.rejects(server[call](session), { name: 'TypeError', message: /^session: must be a client, a lease or / });
    }
    for (const none of [0n, new Client(server.hosts)]) {
      await assert.rejects(server[call](none), { code: 'BAD_ARGUMENT', message: /^session: .* not connected/ });
    }
    await assert.rejects(server[call](2n ** 63n), { code: 'BAD_ARGUMENT', message: /64 bits/ });
  }
  for (const delay of [undefined, '1', null, 1n]) await assert.rejects(server.latency(delay), TypeError);
  for (const delay of [-1, NaN]) await assert.rejects(server.latency(delay), { code: 'BAD_ARGUMENT', message: /^delay: / });
  // As for timeouts, a huge value means the longest possible delay.
  await server.latency(Infinity);
  await server.latency(0);
  assert.throws(() => new Server(), { name: 'TypeError', message: 'start a server with Server.start()' });
});

scenario('a server is shown with its address', async (t) => {
  const { server } = await pair(t);
  const { inspect } = await import('node:util');
  assert.equal(inspect(server), `Server { hosts: '${server.hosts}' }`);
  assert.equal(JSON.stringify(server), `{"hosts":"${server.hosts}"}`);
});

scenario('both module systems have the same class', () => {
  const cjs = createRequire(import.meta.url)('zklock/testing');
  assert.deepEqual(Object.keys(cjs), ['Server']);
  assert.equal(cjs.Server, Server);
});

scenario('a server starts within 50 ms', async () => {
  // Other processes might use the machine, so only the fastest of several attempts counts.
  let quickest = Infinity;
  for (let count = 0; count < 20 && quickest > 50; count += 1) {
    const start = performance.now();
    const server = await Server.start();
    quickest = Math.min(quickest, performance.now() - start);
    await server.stop();
  }
  assert.ok(quickest <= 50, `${quickest} ms`);
});

/** Program text that counts this process's server threads, where the system lists threads. */
const THREADS = `
  import { readdirSync, readFileSync } from 'node:fs';
  const name = (task) => {
    // The thread may have exited since it was listed.
    try { return readFileSync('/proc/self/task/' + task + '/comm', 'utf8').trim(); } catch { return ''; }
  };
  const servers = () => readdirSync('/proc/self/task').map(name).filter((name) => name === 'zklock-server').length;
  // A new thread may not have set its name yet, and a thread that has exited is listed a moment longer.
  const serversOnce = async (expected) => {
    for (let left = 500; left > 0 && servers() !== expected; left -= 1) await new Promise((done) => setTimeout(done, 10));
    return servers();
  };
`;

scenario('each server has one thread, which ends with it; the package itself does not load the server', async (t) => {
  if (!existsSync('/proc/self/task')) return t.skip('no /proc');
  const { code, stdout, stderr } = await run(`${THREADS}
    import { createRequire } from 'node:module';
    const require = createRequire(process.cwd() + '/');
    const loaded = () => Object.keys(require.cache).some((file) => /[/]dist[/]testing[.]js$/.test(file));
    await import('zklock');
    const before = loaded();
    const { Server } = await import('zklock/testing');
    const counts = [servers()];
    const [first, second] = await Promise.all([Server.start(), Server.start()]);
    counts.push(await serversOnce(2));
    await first.stop();
    counts.push(await serversOnce(1));
    await second.stop();
    counts.push(await serversOnce(0));
    console.log(before, loaded(), counts.join(' '));`);
  assert.deepEqual([code, stdout, stderr], [0, 'false true 0 2 1 0\n', '']);
});

scenario('a server without references still runs', async () => {
  const { code, stdout, stderr } = await run(`
    import { Client } from 'zklock';
    import { Server } from 'zklock/testing';
    const { hosts } = (await Server.start()).unref();
    for (let count = 0; count < 10; count += 1) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const client = await Client.connect(hosts);
    console.log(client.state);
    await client.close();`);
  assert.deepEqual([code, stdout, stderr], [0, 'connected\n', '']);
});

const HELD = `
  import { once } from 'node:events';
  import { Client, Mutex } from 'zklock';
  import { Server } from 'zklock/testing';
  const server = await Server.start();
  const client = await Client.connect(server.hosts);
  const lease = await new Mutex(client, '/locks/report').acquire();
`;

for (const [name, then, wanted] of [
  ['keeps the process alive, so that a test can wait for what it does', `await Promise.all([once(lease.signal, 'abort'), server.expire(client)]);
    console.log(lease.lossReason);
    await server.stop();`, 'session expired\n'],
  ['lets the process end when it was stopped', 'await server.stop(); server.ref();', ''],
  ['lets the process end after unref()', 'server.unref();', ''],
  ['ends with process.exit()', 'process.exit(0);', ''],
  ['ends with process.exit() while a call is under way', 'void server.tree(); process.exit(0);', ''],
  ['ends with process.exit() while it is paused', 'await server.pause(); process.exit(0);', ''],
]) {
  scenario(`a running server ${name}`, async () => {
    const { code, signal, stdout, stderr } = await run(HELD + then);
    assert.deepEqual([code, signal, stdout, stderr], [0, null, wanted, '']);
  });
}

scenario('a running server alone keeps the process alive', async () => {
  const source = `import { Server } from 'zklock/testing'; console.log((await Server.start()).hosts);`;
  let alive;
  const { code, signal } = await run(source, {
    onLine: async (hosts, child) => {
      await sleep(300);
      alive = child.exitCode === null && !(await refuses(hosts.trim()));
      child.kill();
    },
  });
  assert.deepEqual([alive, code, signal], [true, null, 'SIGTERM']);
});

const WORKER = `
  const { parentPort } = require('node:worker_threads');
  const { Server } = require('zklock/testing');
  Server.start().then((server) => {
    parentPort.postMessage(server.hosts);
    parentPort.once('message', () => server.stop());
  });
`;

for (const [name, end] of [
  ['stops its server', (worker) => worker.postMessage('stop')],
  ['is terminated', (worker) => worker.terminate()],
]) {
  scenario(`a worker thread that ${name} leaves none behind`, async (t) => {
    const worker = new Worker(WORKER, { eval: true });
    const exited = once(worker, 'exit');
    const [hosts] = await once(worker, 'message');
    const client = await Client.connect(hosts, { sessionTimeout: 1000 });
    t.after(() => client.close());
    const lease = await new Mutex(client, PATH).acquire();
    await end(worker);
    await exited;
    assert.ok(await refuses(hosts));
    await until('the lock is lost', () => lease.state === 'lost');
    if (!existsSync('/proc/self/task')) return;
    // Other servers of this process have stopped with their tests.
    const isServer = (task) => {
      try {
        return readFileSync(`/proc/self/task/${task}/comm`, 'utf8').startsWith('zklock-server');
      } catch {
        // The thread has exited since it was listed.
        return false;
      }
    };
    // A thread that has exited is listed a moment longer.
    await until('its thread is gone', () => !readdirSync('/proc/self/task').some(isServer));
  });
}

scenario('a worker is terminated during a call of its server', async () => {
  const source = `${WORKER.replace('parentPort.postMessage(server.hosts)', 'const churn = () => server.tree().then(churn); churn(); parentPort.postMessage(server.hosts)')}`;
  const worker = new Worker(source, { eval: true });
  const [hosts] = await once(worker, 'message');
  await worker.terminate();
  assert.ok(await refuses(hosts));
});
