// Helpers that the tests share.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from 'zklock';

export const hosts = process.env.ZKLOCK_TEST_HOSTS;
if (!hosts) throw new Error('run these tests with `npm test`, which starts a server');

export const home = fileURLToPath(new URL('..', import.meta.url));

/** Defines a test that fails if it hangs. */
export function scenario(name, body, timeout = 30_000) {
  return test(name, { timeout }, body);
}

/** Returns a connected client. It is closed at the end of the test. */
export async function connected(context, options) {
  const client = await Client.connect(hosts, options);
  context.after(() => client.close());
  return client;
}

/** Returns a lock path that no other test uses. */
export const freshPath = () => `/test-${randomUUID()}`;

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Polls until a condition is true, for conditions that emit no event. */
export async function until(what, condition, limit = 10_000) {
  const deadline = Date.now() + limit;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within ${limit} ms: ${what}`);
    await sleep(10);
  }
}

function open() {
  const [host, port] = hosts.split(':');
  return connect(Number(port), host);
}

async function fourLetterWord(word) {
  const socket = open();
  socket.end(word);
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

/** Returns the ephemeral nodes in a lock directory, as the server's `dump` lists them. */
export async function contenders(path) {
  const dump = await fourLetterWord('dump');
  return [...dump.matchAll(/^\t(\/.*)$/gm)].map(([, node]) => node).filter((node) => node.startsWith(`${path}/`));
}

/** Waits until a lock directory has this many contenders. */
export async function untilContenders(path, count, limit) {
  await until(`${count} contenders on ${path}`, async () => (await contenders(path)).length === count, limit);
}

/** Waits until a lock has no contenders, according to its own listing. */
export async function untilNobodyContends(lock) {
  await until(`nobody contends for ${lock.path}`, async () => (await lock.contenders()).length === 0);
}

const frame = (...parts) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([int(body.length), body]);
};
const int = (value) => {
  const buffer = Buffer.alloc(4);
  buffer.writeInt32BE(value);
  return buffer;
};

/**
 * Sends one request in a separate session, as an operator's tool would. Returns the error number.
 */
async function request(opcode, ...body) {
  const socket = open();
  // Connect request: protocol version, last zxid, timeout, session ID, password.
  socket.write(frame(int(0), Buffer.alloc(8), int(10_000), Buffer.alloc(8), int(16), Buffer.alloc(16)));
  socket.write(frame(int(1), int(opcode), ...body));
  // Close-session request.
  socket.write(frame(int(2), int(-11)));
  let received = Buffer.alloc(0);
  for await (const chunk of socket) received = Buffer.concat([received, chunk]);
  const connection = received.readInt32BE(0);
  // Reply header: length, xid, zxid, error.
  return received.readInt32BE(4 + connection + 4 + 4 + 8);
}

const string = (text) => Buffer.concat([int(Buffer.byteLength(text)), Buffer.from(text)]);

/** Deletes a node, as an operator might. */
export async function deleteNode(path) {
  const error = await request(2, string(path), int(-1));
  if (error !== 0) throw new Error(`delete ${path}: error ${error}`);
}

/** Creates a persistent node that any client can change. */
export async function createNode(path, data = Buffer.alloc(0)) {
  const acl = [int(1), int(31), string('world'), string('anyone')];
  const error = await request(1, string(path), int(data.length), data, ...acl, int(0));
  if (error !== 0) throw new Error(`create ${path}: error ${error}`);
}

/** Returns true if a node exists. */
export async function exists(path) {
  return (await request(3, string(path), Buffer.alloc(1))) === 0;
}

/**
 * Starts a proxy to the server that can be silenced: connections stay open, but no data passes
 * until it is switched on again.
 */
export async function proxy(context, port = 0) {
  const sockets = [];
  const server = createServer((client) => {
    const upstream = open();
    sockets.push(client, upstream);
    client.on('error', () => upstream.destroy()).pipe(upstream);
    upstream.on('error', () => client.destroy()).pipe(client);
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const silence = () => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  const speak = () => {
    for (const [index, socket] of sockets.entries()) socket.pipe(sockets[index ^ 1]);
  };
  return { hosts: `127.0.0.1:${server.address().port}`, silence, speak };
}

/** Runs a program in the package's directory, where `zklock` resolves to this package. */
export async function run(source, { args = [], env = {}, module = true, onLine } = {}) {
  const flags = module ? ['--input-type=module'] : [];
  const child = spawn(process.execPath, [...flags, '--expose-gc', '-e', source, ...args], {
    cwd: home,
    env: { ...process.env, ZKLOCK_HOSTS: hosts, NODE_OPTIONS: '', NODE_TEST_CONTEXT: '', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: 25_000,
    killSignal: 'SIGKILL',
  });
  const output = { stdout: '', stderr: '' };
  child.stderr.on('data', (data) => (output.stderr += data));
  child.stdout.on('data', (data) => {
    output.stdout += data;
    onLine?.(String(data), child);
  });
  const [code, signal] = await once(child, 'close');
  return { code, signal, ...output };
}
