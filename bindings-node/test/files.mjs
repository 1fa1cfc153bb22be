// Runs each file of tests in a process of its own, some beside each other. A file that takes too long is ended with all
// that it started, is a failure by its name, and the others go on.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** In the environment of all that a file starts. */
const MARK = 'ZKLOCK_TEST_FILE';

/** How many lines of what a file printed are shown again when it is ended. */
const LAST_LINES = 20;

const DESTINATION = '--test-reporter-destination=';

/** Sends SIGKILL to the group of a process, and to all that carries this mark: what has a session of its own as well. */
function killAll(child, mark) {
  const kill = (pid) => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  };
  kill(-child.pid);
  let processes = [];
  try {
    processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // Only Linux lists them.
  }
  for (const pid of processes) {
    try {
      if (readFileSync(`/proc/${pid}/environ`).includes(`${MARK}=${mark}`)) kill(Number(pid));
    } catch {
      // It has ended, or is another user's.
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

/** Runs one file: whether all went well. */
async function runFile(file, { flags, options, cwd, env, limit, print }) {
  const scratch = mkdtempSync(join(tmpdir(), 'zklock-file-'));
  // The files of reporters are put together: each process would begin them anew.
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
    // A group of its own.
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
  // It may close in the moment in which it exits: who begins to listen then waits for ever.
  const closed = once(child, 'close');
  const [code] = await once(child, 'exit');
  // Nothing of it may hold up the next ones: not even a process that holds its output open.
  if (!killed) killAll(child, mark);
  // A limit, not a wait: as a rule it closes at once.
  const waiting = new AbortController();
  await Promise.race([closed, sleep(1000, undefined, { signal: waiting.signal }).catch(() => undefined)]);
  waiting.abort();
  clearTimeout(timer);
  for (const [part, destination] of parts) {
    // Which of its tests had begun is in what it wrote.
    const failure = `${JSON.stringify({ failed: `${basename(file)} (killed after ${limit / 1000} s)` })}\n`;
    appendFileSync(destination, contents(part) + (killed ? failure : ''));
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
 * Runs files of tests, so many beside each other, each for so many milliseconds at most; resolves with whether all went
 * well.
 *
 * `options` are those of `node --test`; `flags` stand before them.
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
