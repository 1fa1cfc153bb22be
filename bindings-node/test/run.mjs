// Starts one server for all test files, runs them, and ends it: real ZooKeeper, or the embedded one without Java.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { runFiles } from './files.mjs';

/** How long a file may take, in ms: most take seconds, and those that run programs a minute on a busy machine. */
const FILE_LIMIT = 300_000;

const here = fileURLToPath(new URL('.', import.meta.url));
const harness = fileURLToPath(new URL('../../tests/', import.meta.url));
const python = process.env.ZKLOCK_PYTHON ?? 'python3';

// Ends when its standard input does, and so together with us, however we end.
const SERVER = `
import sys
from harness.embedded import new_server
with new_server() as server:
    print(server.hosts, flush=True)
    sys.stdin.read()
`;

// Reports it, and fails, if the package or the server was not built from the current sources.
const current = spawnSync(python, ['../tools/parts.py', 'node', 'server'], { cwd: harness, stdio: 'inherit' });
if (current.status !== 0) process.exit(1);

const server = spawn(python, ['-c', SERVER], { cwd: harness, stdio: ['pipe', 'pipe', 'inherit'] });
const ended = once(server, 'exit');
const first = await createInterface(server.stdout)[Symbol.asyncIterator]().next();
if (first.done) throw new Error('the server did not start');

const options = process.argv.slice(2).filter((argument) => argument.startsWith('-'));
const named = process.argv.slice(2).filter((argument) => !argument.startsWith('-'));
const files = named.length > 0 ? named : readdirSync(here).filter((file) => file.endsWith('.test.mjs'));
const env = { ...process.env, ZKLOCK_TEST_HOSTS: first.value };
// Files beside each other: their tests mostly wait.
const well = await runFiles(files, { flags: ['--expose-gc'], options, cwd: here, env, limit: FILE_LIMIT });

server.stdin.end();
await ended;
process.exitCode = well ? 0 : 1;
