// Starts one server for all test files, runs them, and stops the server. The server is a real
// ZooKeeper, or the embedded server if there is no Java.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { runFiles } from './files.mjs';

/**
 * Time limit for a file, in ms. Most files take seconds. Files that start programs take a minute on
 * a busy machine.
 */
const FILE_LIMIT = 300_000;

const here = fileURLToPath(new URL('.', import.meta.url));
const harness = fileURLToPath(new URL('../../tests/', import.meta.url));
const python = process.env.ZKLOCK_PYTHON ?? 'python3';

// The server exits when its standard input closes, so it exits whenever this process does.
const SERVER = `
import sys
from harness.built import require
from harness.embedded import new_server
require("node")
with new_server() as server:
    print(server.hosts, flush=True)
    sys.stdin.read()
`;

const server = spawn(python, ['-c', SERVER], { cwd: harness, stdio: ['pipe', 'pipe', 'inherit'] });
const ended = once(server, 'exit');
const first = await createInterface(server.stdout)[Symbol.asyncIterator]().next();
if (first.done) throw new Error('the server did not start');

const options = process.argv.slice(2).filter((argument) => argument.startsWith('-'));
const named = process.argv.slice(2).filter((argument) => !argument.startsWith('-'));
const files = named.length > 0 ? named : readdirSync(here).filter((file) => file.endsWith('.test.mjs'));
const env = { ...process.env, ZKLOCK_TEST_HOSTS: first.value };
// Files run in parallel, because their tests mostly wait.
const well = await runFiles(files, { flags: ['--expose-gc'], options, cwd: here, env, limit: FILE_LIMIT });

server.stdin.end();
await ended;
process.exitCode = well ? 0 : 1;
