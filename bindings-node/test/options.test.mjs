// Unknown option names are rejected. Otherwise an acquire with `{ timout: 5 }` would wait forever.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { Client, Election, MultiLock, Mutex, ReadWriteLock, Semaphore, off, on } from 'zklock';

import { connected, freshPath, home, hosts, scenario } from './support.mjs';

const ts = createRequire(import.meta.url)('typescript');

/** Returns the option names of each exported options type, read from the public declarations. */
function declared() {
  const entry = join(home, 'dist', 'index.d.ts');
  const program = ts.createProgram([entry], { module: ts.ModuleKind.Node16, target: ts.ScriptTarget.ES2022, types: ['node'] });
  const checker = program.getTypeChecker();
  const found = {};
  for (const exported of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)))) {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    const isRecord = /Options$/.test(exported.name) || ['Credential', 'Login', 'TlsOptions', 'SharedCount'].includes(exported.name);
    if (!isRecord) continue;
    found[exported.name] = checker.getDeclaredTypeOfSymbol(symbol).getProperties().map(({ name }) => name).sort();
  }
  return found;
}

const listener = () => undefined;

/** Returns a function that takes the options for each options type. */
function takers(client) {
  const mutex = new Mutex(client, freshPath());
  const semaphore = new Semaphore(client, freshPath(), 1);
  const several = new MultiLock([mutex]);
  const election = new Election(client, freshPath());
  return {
    ClientOptions: (options) => new Client(hosts, options),
    ConnectOptions: (options) => Client.connect(hosts, options),
    ReadyOptions: (options) => client.ready(options),
    Credential: (credential) => new Client(hosts, { auth: [credential] }),
    Login: (sasl) => new Client(hosts, { sasl }),
    TlsOptions: (tls) => new Client(hosts, { tls }),
    MutexOptions: (options) => new Mutex(client, freshPath(), options),
    LockOptions: (options) => new ReadWriteLock(client, freshPath(), options),
    SemaphoreOptions: (options) => new Semaphore(client, freshPath(), 1, options),
    SharedCount: (permits) => new Semaphore(client, freshPath(), { sharedCount: '/count', ...permits }),
    AcquireOptions: (options) => mutex.acquire(options),
    TryOptions: (options) => mutex.tryUsing(options, listener),
    WaitOptions: (options) => semaphore.acquireMany(1, options),
    AcquireAllOptions: (options) => several.using(options, listener),
    TryAllOptions: (options) => several.tryAcquire(options),
    RequestOptions: (options) => client.request(freshPath(), options, listener),
    CloseOptions: (options) => client.close(options),
    ElectionOptions: (options) => new Election(client, freshPath(), options),
    ObserveOptions: (options) => election.observe(options).next(),
    OnceOptions: (options) => mutex.once('slot', listener, options),
    RunOptions: (options) => election.run(listener, options),
    ReleaseOptions: async (options) => {
      const lease = await mutex.acquire();
      try {
        await lease.release(options);
      } finally {
        lease.check();
        await lease.release();
      }
    },
    LogOptions: (options) => {
      on('log', listener, options);
      off('log', listener);
    },
  };
}

/** Returns the error with which an attempt is rejected. */
async function refusal(attempt) {
  try {
    await attempt();
  } catch (error) {
    return error;
  }
  return assert.fail('it was not refused');
}

scenario('each function refuses a name that is not in the type of its options, and knows all that are', async (t) => {
  const types = declared();
  const taking = takers(await connected(t));
  // A new options type must be added to `takers`.
  assert.deepEqual(Object.keys(taking).sort(), Object.keys(types).sort());
  for (const [type, names] of Object.entries(types)) {
    const error = await refusal(() => taking[type]({ 'no such\u202e name, and nothing like it': undefined }));
    assert.equal(error.code, 'BAD_ARGUMENT', type);
    const [, known] = error.message.match(/: there is no 'no such\\u\{202e\} name, and nothing like it'; there are (.*)$/);
    assert.deepEqual(known.split(', ').sort(), names, type);
  }
});

scenario('the error suggests the option name that was probably meant', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const held = await mutex.acquire();
  const suggestion = async (attempt) => (await refusal(attempt)).message;
  assert.equal(await suggestion(() => mutex.acquire({ timout: 5 })), "options: there is no 'timout'; did you mean 'timeout'?");
  assert.match(await suggestion(() => mutex.using({ time_out: 5 }, listener)), /did you mean 'timeout'\?$/);
  assert.match(await suggestion(() => new Client(hosts, { session_timeout: 5000 })), /did you mean 'sessionTimeout'\?$/);
  assert.match(await suggestion(() => Client.connect(hosts, { Signal: undefined })), /did you mean 'signal'\?$/);
  assert.match(await suggestion(() => new Client(hosts, { tls: { caa: '' } })), /^tls: .*did you mean 'ca'\?$/);
  assert.match(await suggestion(() => mutex.tryAcquire({ timeout: 5 })), /^options: there is no 'timeout'; there are connectTimeout, signal, within, owner$/);
  // Options of other functions or of later versions are unknown too.
  assert.match(await suggestion(() => new Semaphore(client, freshPath(), 2, { reentrant: true })), /there is no 'reentrant'; there are /);
  assert.match(await suggestion(() => mutex.acquire({ ['x'.repeat(10_000)]: 1 })), /; there are /);
  await held.release();
});

scenario('options may have a prototype, and an undefined option is ignored', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  class Mine {
    timeout = 1000;
    describe() {
      return 'not an option';
    }
  }
  await (await mutex.acquire(new Mine())).release();
  await (await mutex.acquire(Object.assign(Object.create(null), { timeout: undefined }))).release();
});
