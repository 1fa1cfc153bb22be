// Installs the published packages into an empty project and runs a test of a lost lock there. `make
// packages` builds the packages.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { home, scenario } from './support.mjs';

const LOST = new URL('./installed/lost.test.mjs', import.meta.url);

scenario('a test of a lost lock runs with the installed package', (t) => {
  const project = mkdtempSync(join(tmpdir(), 'zklock-installed-'));
  t.after(() => rmSync(project, { recursive: true }));
  const npm = (directory, ...words) => execFileSync('npm', words, { cwd: directory, stdio: ['ignore', 'pipe', 'inherit'] });
  const packed = join(home, '..', 'tests', 'target', 'packages');
  const tarballs = readdirSync(packed).filter((name) => name.endsWith('.tgz')).map((name) => join(packed, name));
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
  npm(project, 'install', '--offline', '--no-audit', '--no-fund', '--silent', ...tarballs);
  cpSync(LOST, join(project, 'lost.test.mjs'));
  // The test run inside the project must be independent of this one, and must use only the server
  // that its own test starts.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, ZKLOCK_HOSTS: undefined };
  const options = { cwd: project, env, encoding: 'utf8', timeout: 30_000 };
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--test', '--test-reporter=tap', 'lost.test.mjs'], options);
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.match(stdout, /^# pass 1$/m);
}, 60_000);
