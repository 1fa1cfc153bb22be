// Tests of `closeOnSignals()`, for programs without signal handlers. A signal frees the program's
// locks immediately, and the exit status of the program is correct.

import assert from 'node:assert/strict';

import { BadArgumentError } from 'zklock';

import { connected, freshPath, proxy, run, scenario, untilContenders } from './support.mjs';

// The session timeout is so long that no test can pass only because the session has expired.
const PRELUDE = `import { Client, Mutex } from 'zklock';
  const connect = () => Client.connect(undefined, { sessionTimeout: 30_000 });
  const [client, other] = [await connect(), await connect()];
  const hold = (on, name) => new Mutex(on, process.argv[1] + name).acquire();
  const kill = (signal) => process.kill(process.pid, signal);
  const stay = setInterval(() => undefined, 1000);
`;

const program = (source, path, options = {}) => run(`${PRELUDE}${source}`, { args: [path], ...options });

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  scenario(`${signal} closes the client, and ends the process as if nothing had handled it`, async () => {
    const path = freshPath();
    const ended = await program(
      `client.closeOnSignals(['SIGINT', 'SIGTERM', 'SIGHUP']);
      await hold(client, '');
      void hold(client, '');
      kill('${signal}');`,
      path,
    );
    assert.deepEqual([ended.code, ended.signal, ended.stderr], [null, signal, '']);
    await untilContenders(path, 0);
  });
}

scenario('a signal that is not among them is left alone', async () => {
  const path = freshPath();
  const { signal } = await program(
    `client.closeOnSignals(['SIGINT']);
    await hold(client, '');
    kill('SIGTERM');`,
    path,
  );
  assert.equal(signal, 'SIGTERM');
  await untilContenders(path, 1);
});

scenario('several clients share one handler, and all are closed', async () => {
  const path = freshPath();
  const { signal, stdout, stderr } = await program(
    `const clients = [client, other];
    for (let more = 0; more < 12; more += 1) clients.push(new Client());
    for (const one of clients) one.closeOnSignals();
    client.closeOnSignals();
    console.log(process.listenerCount('SIGINT'), process.listenerCount('SIGTERM'));
    await hold(client, '/1');
    await hold(other, '/2');
    kill('SIGTERM');`,
    path,
  );
  assert.deepEqual([signal, stdout, stderr], ['SIGTERM', '1 1\n', '']);
  await untilContenders(`${path}/1`, 0);
  await untilContenders(`${path}/2`, 0);
});

for (const [how, add] of [
  ['on', `process.on('SIGTERM', handler)`],
  ['once', `process.once('SIGTERM', handler)`],
]) {
  for (const first of [true, false]) {
    const when = first ? 'before' : 'after';
    scenario(`the program's own handler, added by \`${how}\` ${when} the client's, decides how the process ends`, async () => {
      const path = freshPath();
      const { code, signal, stdout, stderr } = await program(
        `const handler = () => {
          console.log('handled');
          // Long enough for a signal that was raised again to end the process first.
          setTimeout(async () => {
            // Another thread closes it.
            while (client.state !== 'closed') await new Promise((resolve) => setTimeout(resolve, 10));
            console.log(client.state, other.state);
            process.exit(7);
          }, 500);
        };
        ${first ? `${add};` : ''}
        client.closeOnSignals();
        ${first ? '' : `${add};`}
        await hold(client, '');
        kill('SIGTERM');`,
        path,
      );
      assert.deepEqual([code, signal, stdout, stderr], [7, null, 'handled\nclosed connected\n', '']);
      await untilContenders(path, 0);
    });
  }
}

scenario('a signal that arrives twice, from the terminal and from npm, does not end the process before its client is closed', async () => {
  const path = freshPath();
  const { signal } = await program(
    `client.closeOnSignals();
    await hold(client, '');
    kill('SIGINT');
    setImmediate(() => kill('SIGINT'));`,
    path,
  );
  assert.equal(signal, 'SIGINT');
  await untilContenders(path, 0);
});

scenario('a server that is silent does not hold up the end for long', async (t) => {
  const { hosts, silence } = await proxy(t);
  const start = performance.now();
  let silent;
  const { signal, stderr } = await program(
    `client.closeOnSignals();
    await hold(client, '');
    process.stdin.once('data', () => kill('SIGTERM'));
    console.log('held');`,
    freshPath(),
    {
      env: { ZKLOCK_HOSTS: hosts },
      onLine: (_, child) => {
        silence();
        silent = performance.now();
        child.stdin.write('\n');
      },
    },
  );
  assert.deepEqual([signal, stderr], ['SIGTERM', '']);
  assert.ok(silent > start && performance.now() - silent < 10_000);
});

scenario('the signal handling is removed by the function, by `using`, and by closing the client', async () => {
  const { code, stdout, stderr } = await program(
    `const listeners = () => process.listenerCount('SIGINT') + process.listenerCount('SIGTERM');
    const found = [];
    const undo = client.closeOnSignals();
    const twice = client.closeOnSignals(['SIGINT']);
    undo();
    undo();
    found.push(listeners());
    twice[Symbol.dispose]();
    found.push(listeners());
    client.closeOnSignals();
    other.closeOnSignals();
    await client.close();
    found.push(listeners());
    await other.close();
    found.push(listeners());
    console.log(found.join(' '));
    clearInterval(stay);`,
    freshPath(),
  );
  assert.deepEqual([code, stdout, stderr], [0, '1 0 2 0\n', '']);
});

scenario('it does not keep the process alive', async () => {
  const { code } = await program(`client.closeOnSignals(); clearInterval(stay);`, freshPath());
  assert.equal(code, 0);
});

scenario('signals that end nothing, or cannot be handled, are refused, and so is a worker thread', async (t) => {
  const client = await connected(t);
  for (const signals of [['SIGKILL'], ['SIGINT', 'SIGCHLD'], ['TERM'], 'SIGINT']) {
    assert.throws(() => client.closeOnSignals(signals), signals === 'SIGINT' ? TypeError : BadArgumentError);
  }
  assert.equal(process.listenerCount('SIGINT'), 0);
  const { stdout } = await program(
    `const { Worker } = await import('node:worker_threads');
    const source = \`import { Client } from 'zklock';
      try { new Client().closeOnSignals(); } catch ({ code, message }) { console.log(code, message); }\`;
    new Worker(source, { eval: true }).once('exit', () => clearInterval(stay));`,
    freshPath(),
  );
  assert.match(stdout, /^BAD_ARGUMENT closeOnSignals: signals reach only the main thread/);
});
