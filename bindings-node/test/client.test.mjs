// Tests of clients that connect on first use, and of canceled connection attempts.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';

import { Client, Mutex } from 'zklock';

import { freshPath, hosts, proxy, run, scenario, sleep, until, untilContenders } from './support.mjs';

/** Returns a client that has not connected. It is closed at the end of the test. */
function lazy(t, where = hosts, options) {
  const client = new Client(where, options);
  t.after(() => client.close());
  return client;
}

/** Starts a server that never replies. */
async function silent(t) {
  const sockets = new Set();
  const seen = { sockets, count: 0 };
  const server = createServer((socket) => {
    seen.count += 1;
    sockets.add(socket);
    // `resume()` reads from the socket. Otherwise the socket would not notice that the client has
    // closed the connection.
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket)).resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const close = () => new Promise((resolve) => server.close(resolve));
  return { hosts: `127.0.0.1:${server.address().port}`, seen, close };
}

scenario('a new client connects when it is first used', async (t) => {
  const client = lazy(t);
  assert.deepEqual([client.state, client.sessionId], ['idle', 0n]);
  const mutex = new Mutex(client, freshPath());
  assert.equal(client.state, 'idle');
  const states = [];
  client.on('state', (state) => states.push(state));
  const lease = await mutex.acquire({ timeout: 10_000 });
  assert.deepEqual([client.state, client.sessionId], ['connected', lease.sessionId]);
  await until('the states', () => states.includes('connected'));
  assert.deepEqual(states, ['connecting', 'connected']);
  await lease.release();
});

scenario('ready resolves once there is a session, and again', async (t) => {
  const client = lazy(t);
  await Promise.all([client.ready(), client.ready({ signal: new AbortController().signal })]);
  assert.equal(client.state, 'connected');
  await client.ready();
  await client.close();
  await assert.rejects(client.ready(), { code: 'CLIENT_CLOSED' });
});

scenario('a new client that was never used sends nothing when it is closed', async () => {
  const client = new Client('127.0.0.1:1');
  await client.close();
  assert.equal(client.state, 'closed');
  await assert.rejects(new Mutex(client, freshPath()).acquire(), { code: 'CLIENT_CLOSED' });
});

scenario('malformed arguments are refused by the constructor, before anything is sent', () => {
  assert.throws(() => new Client('a:0'), { code: 'BAD_ARGUMENT', message: /^hosts: / });
  assert.throws(() => new Client(hosts, { sessionTimeout: -1 }), { code: 'BAD_ARGUMENT', message: /^sessionTimeout: / });
  assert.throws(() => new Client(5), TypeError);
  assert.throws(() => new Client(hosts, null), TypeError);
  assert.throws(() => new Client(hosts, { label: 5 }), TypeError);
});

scenario('ready says that no server answers; the next use tries again, for as long as it takes', async (t) => {
  // No process listens on this port until the proxy to the server starts there.
  const free = await silent(t);
  const port = Number(free.hosts.split(':')[1]);
  await free.close();
  const client = lazy(t, free.hosts, { connectTimeout: 2000 });
  await assert.rejects(client.ready(), { code: 'CONNECTION_FAILED' });
  assert.equal(client.state, 'idle');
  const acquiring = new Mutex(client, freshPath()).acquire();
  await proxy(t, port);
  assert.equal((await acquiring).state, 'held');
});

scenario('a signal gives up connecting, with its reason, and leaves no client', async (t) => {
  const server = await silent(t);
  const controller = new AbortController();
  const reason = new Error('changed my mind');
  const connecting = Client.connect(server.hosts, { signal: controller.signal, connectTimeout: 60_000 });
  await until('a connection', () => server.seen.sockets.size > 0);
  controller.abort(reason);
  const before = server.seen.count;
  await assert.rejects(connecting, (error) => error === reason);
  // The connection is closed immediately, before the client's own timeout and before another
  // attempt.
  await until('the connection is closed', () => server.seen.sockets.size === 0, 2000);
  await sleep(2000);
  assert.equal(server.seen.count, before);
  await assert.rejects(Client.connect(hosts, { signal: controller.signal }), (error) => error === reason);
  await assert.rejects(Client.connect(hosts, { signal: 'now' }), TypeError);
});

scenario('a signal that aborts later does nothing to the client', async (t) => {
  const controller = new AbortController();
  const client = await Client.connect(hosts, { signal: controller.signal });
  t.after(() => client.close());
  controller.abort();
  assert.equal(client.state, 'connected');
  await (await new Mutex(client, freshPath()).acquire()).release();
});

scenario('an aborted ready leaves the client', async (t) => {
  const server = await silent(t);
  const client = lazy(t, server.hosts);
  await assert.rejects(client.ready({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  // Another thread connects. It might not have started yet.
  await until('it connects', () => client.state === 'connecting');
});

scenario('a failed connect closes the connection, and is not retried', async (t) => {
  const server = await silent(t);
  await assert.rejects(Client.connect(server.hosts, { connectTimeout: 300 }), { code: 'CONNECTION_FAILED' });
  await until('the connection is closed', () => server.seen.sockets.size === 0, 2000);
});

scenario('a new client does not keep the process alive, and its locks are free at its end', async () => {
  const path = freshPath();
  const { code, stdout, stderr } = await run(
    `import { Client, Mutex } from 'zklock';
    const client = new Client();
    const lease = await new Mutex(client, process.argv[1]).acquire();
    console.log(lease.state);`,
    { args: [path] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'held\n', '']);
  await untilContenders(path, 0);
});

/** Returns a promise and the function that resolves it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

scenario('a client that drains lets the scopes of other callers finish, and acquires no new locks', async (t) => {
  const client = lazy(t);
  const [held, free] = [new Mutex(client, freshPath()), new Mutex(client, freshPath())];
  const [began, work] = [gate(), gate()];
  const running = held.using(async (lease) => {
    began.open();
    await work.opened;
    // The owner can acquire its lock again.
    await held.using(() => undefined);
    return lease.state;
  });
  await began.opened;
  const waiting = assert.rejects(held.acquire(), { code: 'CLIENT_CLOSED' });
  await untilContenders(held.path, 2);
  let closed = false;
  // Longer than any test runs.
  const closing = client.close({ drain: 600_000 }).then(() => (closed = true));
  await waiting;
  await assert.rejects(free.acquire(), { code: 'CLIENT_CLOSED' });
  assert.deepEqual([closed, client.state], [false, 'connected']);
  work.open();
  assert.equal(await running, 'held');
  await closing;
  assert.equal(client.state, 'closed');
  await untilContenders(held.path, 0);
});

scenario('a drain ends after its time, and leases that are still held are lost', async (t) => {
  const client = lazy(t);
  const lease = await new Mutex(client, freshPath()).acquire();
  const begin = performance.now();
  await client.close({ drain: 100 });
  assert.ok(performance.now() - begin >= 99);
  assert.deepEqual([client.state, lease.state, lease.lossReason], ['closed', 'lost', 'client closed']);
  await client.close({ drain: 100 });
});

scenario('a close does not wait for a drain, and ends it', async (t) => {
  for (const options of [undefined, {}, { drain: undefined }, { drain: 0 }]) {
    const client = lazy(t);
    const lease = await new Mutex(client, freshPath()).acquire();
    const draining = client.close({ drain: Infinity });
    assert.equal(lease.state, 'held');
    await client.close(options);
    await draining;
    assert.equal(lease.lossReason, 'client closed');
  }
});

scenario('a drain with an invalid time is refused, and the client stays open', async (t) => {
  const client = lazy(t);
  await client.ready();
  for (const drain of [-1, NaN]) {
    await assert.rejects(client.close({ drain }), { code: 'BAD_ARGUMENT', message: /^drain: must not be negative or NaN/ });
  }
  for (const drain of ['5', null, 5n]) await assert.rejects(client.close({ drain }), TypeError);
  assert.equal(client.state, 'connected');
  await (await new Mutex(client, freshPath()).acquire()).release();
});
