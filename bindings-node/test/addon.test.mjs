// The error for a missing native addon tells the user how to fix it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { home, run, scenario } from './support.mjs';

/**
 * Loads the package in a project where its addon is not installed. `fill` can create other files in
 * its place.
 */
async function loadWithout(t, source, { fill, env, module } = {}) {
  const project = mkdtempSync(join(tmpdir(), 'zklock-addon-'));
  t.after(() => rmSync(project, { recursive: true }));
  const copy = join(project, 'node_modules', 'zklock');
  mkdirSync(join(copy, 'addon'), { recursive: true });
  for (const part of ['package.json', 'index.mjs', 'dist', 'addon/index.js']) {
    cpSync(join(home, part), join(copy, part), { recursive: true });
  }
  fill?.(join(copy, 'addon'));
  const program = join(project, module ? 'program.mjs' : 'program.cjs');
  writeFileSync(program, source);
  return run(`await import(${JSON.stringify(program)})`, { env });
}

const PRINT = `(error) => console.log(error.code, error.name, error.message, '|', error.cause?.message)`;
const REQUIRED = `try { require('zklock') } catch (error) { (${PRINT})(error) }`;
const { napi } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));

const WANTED = [process.platform, process.arch, '--omit=optional', 'external', 'docs/bundlers.md', 'npm run build'];

function checkMissing(text) {
  assert.match(text, /the native addon of zklock for [a-z]+-[a-z0-9]+(-gnu)? is missing\. /);
  for (const said of WANTED) assert.ok(text.includes(said), `${said} in ${text}`);
  assert.match(text, /Cannot find native binding/);
}

scenario('an addon that is missing is reported with the platform, what is supported, and what to do', async (t) => {
  const { code, stdout, stderr } = await loadWithout(t, REQUIRED);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^ADDON_MISSING Error /);
  checkMissing(stdout);
});

scenario('a module that imports the package sees the same error for a missing addon', async (t) => {
  const { code, stdout, stderr } = await loadWithout(t, `import { Mutex } from 'zklock'; console.log(Mutex);`, { module: true });
  assert.deepEqual([code, stdout], [1, '']);
  checkMissing(stderr);
});

scenario('an error for a missing addon names each platform for which addons are published', async (t) => {
  const { stdout } = await loadWithout(t, REQUIRED);
  const [, listed] = /Supported platforms: (.*?)\. \|/.exec(stdout);
  const names = napi.targets.map((triple) => {
    const [arch, , system, libc] = triple.split('-');
    return [system === 'windows' ? 'win32' : system, { aarch64: 'arm64', x86_64: 'x64' }[arch], libc].filter(Boolean).join('-');
  });
  assert.deepEqual(listed.split(', '), names.sort());
});

for (const [platform, arch] of [
  ['freebsd', 'x64'],
  ['linux', 'riscv64'],
]) {
  scenario(`a platform without addons, ${platform}-${arch}, is called unsupported`, async (t) => {
    const pretend = `Object.defineProperty(process, 'platform', { value: '${platform}' });
      Object.defineProperty(process, 'arch', { value: '${arch}' });`;
    const { code, stdout, stderr } = await loadWithout(t, pretend + REQUIRED);
    assert.deepEqual([code, stderr], [0, '']);
    const wanted = `ADDON_MISSING Error zklock has no native addon for this platform, ${platform}-${arch}`;
    assert.ok(stdout.startsWith(wanted), stdout);
    assert.match(stdout, /Supported platforms: .*win32-x64-msvc\. In a clone/);
  });
}

scenario('an addon that the operating system refuses is reported with the message of the system', async (t) => {
  const fill = (native) => {
    const here = `${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}`;
    writeFileSync(join(native, `zklock.${here}.node`), 'no addon at all');
  };
  const { code, stdout, stderr } = await loadWithout(t, REQUIRED, { fill });
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /cannot be loaded: .*zklock\.[\w-]+\.node.*Install zklock again on this machine/s);
  assert.doesNotMatch(stdout, /is missing/);
});

scenario('where Node forbids addons, the error names the option', () => {
  const permission = process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission';
  const program = `try { require('zklock') } catch (error) { console.log(error.code, error.message) }`;
  const load = (...flags) => spawnSync(process.execPath, [...flags, '--eval', program], { cwd: home, encoding: 'utf8' }).stdout;
  const limited = [permission, '--allow-fs-read=*'];
  assert.match(load(...limited), /^ADDON_MISSING .*this process is not permitted to load addons: start Node with --allow-addons\.$/m);
  assert.equal(load(...limited, '--allow-addons'), '');
  assert.match(load('--no-addons'), /^ADDON_MISSING .*start Node without --no-addons\.$/m);
});
