// Tests of the package's effects on a process, and of the locks when a process exits.

import assert from 'node:assert/strict';

import { Mutex } from 'zklock';

import { connected, freshPath, proxy, run, scenario, untilContenders } from './support.mjs';

const PRELUDE = `
  import { Client, Mutex } from 'zklock';
  const path = process.argv[1];
  const client = await Client.connect();
  const mutex = new Mutex(client, path);
`;

for (const module of [true, false]) {
  scenario(`loading as ${module ? 'ESM' : 'CommonJS'} starts no thread and opens no socket`, async () => {
    const load = module ? `await import('zklock')` : `require('zklock')`;
    const { stdout, code } = await run(
      `
      ${module ? `import fs from 'node:fs'` : `const fs = require('node:fs')`};
      const threads = () => fs.readdirSync('/proc/self/task').length;
      const sockets = () => fs.readdirSync('/proc/self/fd').filter((fd) => {
        try { return fs.readlinkSync('/proc/self/fd/' + fd).startsWith('socket:'); } catch { return false; }
      }).length;
      // The loader of ES modules reads files on Node's thread pool, so the pool must exist before the count.
      const pool = new Promise((resolve) => fs.stat('.', resolve));
      ${module ? 'await pool' : ''};
      const before = [threads(), sockets(), process.listenerCount('exit')];
      ${load};
      console.log(JSON.stringify([before, [threads(), sockets(), process.listenerCount('exit')]]));
      `,
      { module },
    );
    assert.equal(code, 0);
    const [before, after] = JSON.parse(stdout);
    assert.deepEqual(after, before);
  });
}

scenario('an idle client lets the process end, also while it holds, and the lock is free then', async () => {
  const path = freshPath();
  const { code, stdout } = await run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    void lease.signal;
    process.on('exit', () => console.log(lease.state));`,
    { args: [path] },
  );
  assert.equal(code, 0);
  assert.match(stdout, /held|lost/);
  await untilContenders(path, 0);
});

scenario('a pending acquire keeps the process alive until it is granted', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const child = run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    console.log('granted');`,
    { args: [mutex.path] },
  );
  await untilContenders(mutex.path, 2);
  await lease.release();
  assert.deepEqual(await child, { code: 0, signal: null, stdout: 'granted\n', stderr: '' });
});

scenario('a pending acquire of an unref()ed client does not keep the process alive', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const { code, stdout } = await run(
    `${PRELUDE}
    client.unref();
    void mutex.acquire().then(() => console.log('granted'));`,
    { args: [mutex.path] },
  );
  assert.equal(code, 0);
  assert.equal(stdout, '');
  await untilContenders(mutex.path, 1);
  await lease.release();
});

scenario('a pending acquire keeps the process alive although the operations of other clients end', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const { code, stdout } = await run(
    `${PRELUDE}
    void mutex.acquire().then(() => console.log('granted'));
    const others = [new Client(), new Client().unref()];
    for (const other of others) await (await new Mutex(other, path + '-other').acquire()).release();
    await Promise.all(others.map((other) => other.close()));
    console.log('others ended');`,
    {
      args: [mutex.path],
      // The process would exit before the grant if the other clients' operations ended the requirement of this one.
      onLine: (line) => line.startsWith('others') && void untilContenders(mutex.path, 2).then(() => lease.release()),
    },
  );
  assert.deepEqual([code, stdout], [0, 'others ended\ngranted\n']);
});

scenario('fake timers that a test installs do not prevent a process from waiting later', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  const child = run(
    `${PRELUDE}
    import { mock } from 'node:test';
    const alive = setInterval(() => undefined, 1_000);
    mock.timers.enable({ apis: ['setInterval'] });
    await new Mutex(client, path + '-other').acquire();
    mock.timers.reset();
    clearInterval(alive);
    void mutex.acquire().then(() => console.log('granted'));`,
    { args: [mutex.path] },
  );
  await untilContenders(mutex.path, 2);
  await lease.release();
  const { code, stdout } = await child;
  assert.deepEqual([code, stdout], [0, 'granted\n']);
});

scenario('the async context of the first operation is not kept', async () => {
  const { code, stdout, stderr } = await run(
    `import { AsyncLocalStorage } from 'node:async_hooks';
    import { Client } from 'zklock';
    const client = new Client();
    const kept = await (async () => {
      const values = {};
      await new AsyncLocalStorage().run(values, () => client.ready());
      return new WeakRef(values);
    })();
    await client.close();
    for (let turn = 0; turn < 100 && kept.deref() !== undefined; turn++) {
      await new Promise(setImmediate);
      gc();
    }
    console.log(kept.deref());`,
  );
  assert.deepEqual([code, stdout, stderr], [0, 'undefined\n', '']);
});

scenario('timers may be numbers, as they are in a browser and in jsdom', async () => {
  const { code, stdout, stderr } = await run(
    `const { setInterval: set, clearInterval: clear } = globalThis;
    globalThis.setInterval = (...args) => Number(set(...args));
    globalThis.clearInterval = (number) => clear(number);
    const { Client, Mutex } = await import('zklock');
    const client = await Client.connect();
    await new Mutex(client, process.argv[1]).using(() => console.log('held'));
    await client.close();`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'held\n', '']);
});

scenario('a ref()ed client keeps the process alive until it is closed', async () => {
  const { code, stdout } = await run(
    `${PRELUDE}
    client.ref();
    setTimeout(async () => { console.log('closing'); await client.close(); }, 200).unref();`,
    { args: [freshPath()] },
  );
  assert.equal(code, 0);
  assert.equal(stdout, 'closing\n');
});

scenario('release and close keep the process alive until they are done, unref()ed or not', async () => {
  const { code, stdout, stderr } = await run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    client.unref();
    await lease.release();
    await client.close();
    console.log('done');`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'done\n', '']);
});

const ENDINGS = {
  'process.exit()': [`process.exit(3)`, 3],
  'an uncaught exception': [`setImmediate(() => { throw new Error('oops'); })`, 1],
  'an unhandled rejection': [`void Promise.reject(new Error('oops'))`, 1],
  'process.exit() in a scope': [`await mutex.using({ within: lease }, () => process.exit(3))`, 3],
  'process.exit() with an acquire pending': [`void mutex.acquire(); setTimeout(() => process.exit(3), 50)`, 3],
};

for (const [name, [ending, expected]] of Object.entries(ENDINGS)) {
  scenario(`${name} frees the lock at once`, async () => {
    const path = freshPath();
    const { code, signal, stderr } = await run(`${PRELUDE} const lease = await mutex.acquire(); ${ending};`, {
      args: [path],
    });
    assert.equal(signal, null, stderr);
    assert.equal(code, expected, stderr);
    await untilContenders(path, 0);
  });
}

scenario('there is one exit hook however many clients', async () => {
  const { stdout } = await run(
    `import { Client } from 'zklock';
    const before = process.listenerCount('exit');
    for (let i = 0; i < 20; i++) await Client.connect();
    console.log(process.listenerCount('exit') - before);`,
  );
  assert.equal(stdout, '1\n');
});

scenario('an exit while the server is silent takes about a second, not more', async (t) => {
  // This port simulates a hung server: it accepts connections and never replies.
  const { createServer } = await import('node:net');
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  t.after(() => silent.close());
  let before;
  const { code } = await run(
    `import { Client } from 'zklock';
    void Client.connect('127.0.0.1:${silent.address().port}').catch(() => undefined);
    setTimeout(() => {
      console.log('exits');
      process.exit(0);
    }, 100);`,
    { onLine: () => (before = performance.now()) },
  );
  assert.equal(code, 0);
  assert.ok(performance.now() - before < 3000);
});

scenario('an exit while the server has fallen silent takes about a second, not more', async (t) => {
  const through = await proxy(t);
  let before;
  const { code, stdout } = await run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    void mutex.acquire();
    console.log('held');
    process.stdin.once('data', () => process.exit(0));`,
    {
      args: [freshPath()],
      env: { ZKLOCK_HOSTS: through.hosts },
      onLine: (line, child) => {
        through.silence();
        before = performance.now();
        child.stdin.write('exit');
      },
    },
  );
  assert.deepEqual([code, stdout], [0, 'held\n']);
  assert.ok(performance.now() - before < 3000);
});

scenario('an outcome that is not awaited rejects loudly, and one that is leaves no stray rejection', async () => {
  const { code, stdout, stderr } = await run(
    `${PRELUDE}
    process.on('unhandledRejection', (error) => { console.log('unhandled', error.code ?? error.name); });
    const lease = await mutex.acquire();
    void lease.signal;
    await mutex.acquire({ timeout: 20 }).catch(() => undefined);
    const controller = new AbortController();
    const waiting = mutex.acquire({ signal: controller.signal }).catch(() => undefined);
    controller.abort();
    await waiting;
    await mutex.acquire({ signal: AbortSignal.abort() }).catch(() => undefined);
    await mutex.using({ timeout: 0 }, () => undefined).catch(() => undefined);
    const last = mutex.acquire().catch(() => undefined);
    await client.close();
    await last;
    await lease.release();
    void lease.release();
    await new Promise((resolve) => setTimeout(resolve, 20));`,
    { args: [freshPath()] },
  );
  assert.equal(code, 0, stderr);
  assert.equal(stdout, 'unhandled NOT_HELD\n');
});

for (const killed of ['SIGKILL', 'SIGTERM', 'SIGINT']) {
  scenario(`${killed} frees the locks after the session time-out, held or waited for`, async (t) => {
    const busy = await new Mutex(await connected(t), freshPath()).acquire();
    const path = freshPath();
    const { signal, stderr } = await run(
      `import { Client, Mutex } from 'zklock';
      const client = await Client.connect(undefined, { sessionTimeout: 1000 });
      await new Mutex(client, process.argv[1]).acquire();
      const busy = new Mutex(client, process.argv[2]);
      void busy.acquire();
      while ((await busy.contenders()).length < 2);
      process.kill(process.pid, '${killed}');`,
      { args: [path, busy.path] },
    );
    assert.deepEqual([signal, stderr], [killed, '']);
    await untilContenders(path, 0, 3000);
    await untilContenders(busy.path, 1, 3000);
  });
}

scenario('a handler of SIGTERM that exits frees the lock at once', async () => {
  const path = freshPath();
  const { code, stderr } = await run(
    `${PRELUDE}
    process.once('SIGTERM', () => process.exit(5));
    await mutex.acquire();
    void mutex.acquire();
    process.kill(process.pid, 'SIGTERM');`,
    { args: [path] },
  );
  assert.deepEqual([code, stderr], [5, '']);
  await untilContenders(path, 0);
});

scenario('after a handled uncaught exception, holds and waits continue', async () => {
  const path = freshPath();
  const { code, stdout, stderr } = await run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    const waiting = mutex.acquire();
    process.once('uncaughtException', async ({ message }) => {
      console.log(message, lease.state);
      await lease.release();
      await (await waiting).release();
      console.log('released');
    });
    setImmediate(() => { throw new Error('oops'); });`,
    { args: [path] },
  );
  assert.deepEqual([code, stdout, stderr], [0, 'oops held\nreleased\n', '']);
});

for (const when of ['before', 'after']) {
  scenario(`fake timers that begin ${when} a hold do not delay the exit of the process or the report of a loss`, async () => {
    const fake = `mock.timers.enable(); globalThis.queueMicrotask = () => undefined;`;
    const { code, stdout } = await run(
      `${PRELUDE}
      import { mock } from 'node:test';
      ${when === 'before' ? fake : ''}
      const held = await mutex.acquire();
      const waiting = mutex.acquire();
      ${when === 'after' ? fake : ''}
      await held.release();
      const lost = await waiting;
      const received = [new Promise((resolve) => client.on('lost', resolve)), new Promise((resolve) => lost.signal.addEventListener('abort', resolve))];
      client.ref();
      await client.breakLock(lost.node);
      await Promise.all(received);
      await client.close();
      console.log('closed');`,
      { args: [freshPath()] },
    );
    assert.deepEqual([code, stdout], [0, 'closed\n']);
  });
}

scenario('a client that drains keeps the process alive until it is closed', async () => {
  const { code, stdout } = await run(
    `${PRELUDE}
    const lease = await mutex.acquire();
    client.close({ drain: 300 }).then(() => console.log(lease.lossReason));`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout], [0, 'client closed\n']);
});

scenario('a candidate that pauses keeps the process alive, and fake timers do not stop it', async () => {
  const { code, stdout } = await run(
    `${PRELUDE}
    import { mock } from 'node:test';
    import { Election } from 'zklock';
    mock.timers.enable();
    let rounds = 0;
    const end = new Election(client, path).run(async () => {
      rounds += 1;
      if (rounds === 3) await client.close();
    });
    end.then(() => console.log('led', rounds));`,
    { args: [freshPath()] },
  );
  assert.deepEqual([code, stdout], [0, 'led 3\n']);
});
