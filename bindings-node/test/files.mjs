// Runs each test file in a separate process, several in parallel. A file that takes too long is
// killed with all processes that it started, and counts as a failure. The other files continue.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Environment variable that marks all processes that a file starts. */
const MARK = 'ZKLOCK_TEST_FILE';

/** Number of output lines that are repeated when a file is killed. */
const LAST_LINES = 20;

const DESTINATION = '--test-reporter-destination=';

/**
 * Sends SIGKILL to the child's process group and to all processes with this mark. A process in
 * another session is found by the mark.
 */
function killAll(child, mark) {
  const kill = (pid) => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has exited.
    }
  };
  kill(-child.pid);
  let processes = [];
  try {
    processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // Only Linux lists the processes in `/proc`.
  }
  for (const pid of processes) {
    try {
      if (readFileSync(`/proc/${pid}/environ`).includes(`${MARK}=${mark}`)) kill(Number(pid));
    } catch {
      // The process has exited or belongs to another user.
    }
  }
}

const contents = (file) => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

/** Runs one file; resolves to true if it passed. */
async function runFile(file, { flags, options, cwd, env, limit, print }) {
  const scratch = mkdtempSync(join(tmpdir(), 'zklock-file-'));
  // If all processes wrote to the reporters' files, each would overwrite them. So each process
  // writes separate files, which are then appended to the reporters' files.
  const parts = new Map();
  const own = options.map((option) => {
    const [, destination] = option.split(DESTINATION);
    if (destination === undefined || destination === 'stdout' || destination === 'stderr') return option;
    const part = join(scratch, `${parts.size}`);
    parts.set(part, destination);
    return DESTINATION + part;
  });
  const mark = randomUUID();
  const child = spawn(process.execPath, [...flags, '--test', ...own, file], {
    cwd,
    env: { ...env, [MARK]: mark },
    // Starts a separate process group.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => (output += text));
  }
  let killed = false;
  const timer = setTimeout(() => {
    killed = true;
    killAll(child, mark);
  }, limit);
  // The child can emit `close` together with `exit`. A listener that is added later would wait
  // forever.
  const closed = once(child, 'close');
  const [code] = await once(child, 'exit');
  // Kill processes that the test file left behind: they could keep the output open and so delay the
  // next files.
  if (!killed) killAll(child, mark);
  // The timeout is only a limit: the output normally closes immediately.
  const waiting = new AbortController();
  await Promise.race([closed, sleep(1000, undefined, { signal: waiting.signal }).catch(() => undefined)]);
  waiting.abort();
  clearTimeout(timer);
  const name = basename(file);
  for (const [part, destination] of parts) {
    // Node's JUnit reports do not name the file. The report of a killed file is incomplete.
    const report = contents(part).replaceAll('classname="test"', `classname="${name}"`);
    const failure = `<testcase classname="${name}" name="killed after ${limit / 1000} s"><failure/></testcase>`;
    appendFileSync(destination, killed ? `<?xml version="1.0"?><testsuites>${failure}</testsuites>\n` : report);
  }
  rmSync(scratch, { recursive: true, force: true });
  print(output);
  if (killed) {
    const last = output.trimEnd().split('\n').slice(-LAST_LINES).join('\n  ');
    print(`KILLED after ${limit / 1000} s: ${basename(file)}, whose last output was\n  ${last}\n`);
  }
  return code === 0 && !killed;
}

/**
 * Runs test files, at most `atATime` in parallel and each for at most `limit` milliseconds.
 * Resolves to true if all of them passed.
 *
 * `options` are options of `node --test`. `flags` are options of `node` and precede them.
 */
export async function runFiles(files, { flags = [], options = [], cwd, env = process.env, limit, atATime = 4, print }) {
  const say = print ?? ((text) => process.stdout.write(text));
  const waiting = [...files];
  let well = true;
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      if (!(await runFile(file, { flags, options, cwd, env, limit, print: say }))) well = false;
    }
  };
  await Promise.all(Array.from({ length: atATime }, work));
  return well;
}
