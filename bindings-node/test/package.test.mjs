// Tests of the published package's contents, and of its types in a consumer's compiler.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freshPath, home, hosts, run, scenario } from './support.mjs';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

scenario('the package contains what is needed, and nothing else', () => {
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: home, encoding: 'utf8' });
  const report = JSON.parse(output);
  // Older versions of npm print an array. Newer versions print an object with package names as
  // keys.
  const [pack] = Object.values(report);
  const files = pack.files.map(({ path }) => path);
  const entries = { index: 'index', opentelemetry: 'tracing/opentelemetry', prometheus: 'prometheus', testing: 'testing' };
  const forms = Object.entries(entries).flatMap(([name, file]) => [`${name}.mjs`, `${name}.d.mts`, `dist/${file}.js`, `dist/${file}.d.ts`]);
  for (const needed of ['package.json', 'README.md', ...forms, 'dist/index.js.map', 'bin/zklock']) {
    assert.ok(files.includes(needed), `${needed} is missing`);
  }
  assert.ok(files.includes('addon/index.js') && files.includes('addon/index.d.ts'));
  // The addon is in the package of the platform.
  assert.equal(files.filter((file) => file.endsWith('.node')).length, 0);
  for (const file of files) {
    assert.match(file, /^(addon|bin|dist)\/|^(package\.json|README\.md|LICENSE|THIRD-PARTY-NOTICES\.txt|(index|opentelemetry|prometheus|testing)\.d?\.?mt?[js]s?)$/);
  }
});

scenario('the lock file names no registry', () => {
  const { packages } = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8'));
  assert.deepEqual(
    Object.values(packages).filter((entry) => entry.resolved !== undefined),
    [],
  );
});

scenario('ESM and CommonJS consumers compile under --strict, and what they compile runs', async (t) => {
  const consumer = mkdtempSync(join(tmpdir(), 'zklock-types-'));
  t.after(() => rmSync(consumer, { recursive: true }));
  cpSync(new URL('./types', import.meta.url), consumer, { recursive: true });
  mkdirSync(join(consumer, 'node_modules', '@types'), { recursive: true });
  symlinkSync(home, join(consumer, 'node_modules', 'zklock'), 'dir');
  symlinkSync(join(home, 'node_modules', '@types', 'node'), join(consumer, 'node_modules', '@types', 'node'), 'dir');
  for (const name of ['undici-types', '@opentelemetry', 'prom-client']) {
    symlinkSync(join(home, 'node_modules', name), join(consumer, 'node_modules', name), 'dir');
  }
  const compiled = spawnSync(process.execPath, [tsc, '--project', consumer], { encoding: 'utf8' });
  assert.equal(compiled.stdout, '');
  assert.equal(compiled.status, 0);
  for (const file of ['esm.mjs', 'cjs.cjs']) {
    const { code, stdout, stderr } = await run(`await import(${JSON.stringify(join(consumer, 'out', file))})`, {
      env: { ZKLOCK_HOSTS: hosts, LOCK_PATH: freshPath() },
    });
    assert.deepEqual([code, stdout, stderr], [0, 'held\nreleased\n', '']);
  }
}, 60_000);
