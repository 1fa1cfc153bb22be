// Tests of the properties of leases, and of release and loss.

import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleepUntilAborted } from 'node:timers/promises';

import {
  BadArgumentError,
  Client,
  Election,
  LockLostError,
  Lease,
  MultiLock,
  Mutex,
  NotHeldError,
  ReadWriteLock,
  Semaphore,
} from 'zklock';

import {
  connected,
  contenders,
  deleteNode,
  freshPath,
  hosts,
  proxy,
  scenario,
  sleep,
  until,
  untilContenders,
  untilNobodyContends,
} from './support.mjs';

const aborted = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener('abort', () => resolve(signal.reason), { once: true });
  });

scenario('a lease has bigint properties, which are strings in JSON', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath(), { label: 'facts' });
  const lease = await mutex.acquire();
  assert.ok(lease instanceof Lease);
  assert.equal(lease.path, mutex.path);
  assert.deepEqual(await contenders(mutex.path), [lease.node]);
  assert.equal(typeof lease.fencingToken, 'bigint');
  assert.equal(lease.sessionId, client.sessionId);
  assert.equal(lease.state, 'held');
  assert.deepEqual(JSON.parse(JSON.stringify({ lease })).lease, {
    path: lease.path,
    node: lease.node,
    fencingToken: String(lease.fencingToken),
    sessionId: String(lease.sessionId),
    state: 'held',
  });
  await lease.release();
  const next = await mutex.acquire();
  assert.ok(next.fencingToken > lease.fencingToken);
  await next.release();
});

scenario('a lease has the mode of its hold', async (t) => {
  const client = await connected(t);
  const { readLock, writeLock } = new ReadWriteLock(client, freshPath());
  const modes = [];
  for (const lock of [new Mutex(client, freshPath()), new Mutex(client, freshPath(), { naming: 'kazoo' }), readLock, writeLock]) {
    await lock.using(({ mode }) => modes.push(mode));
  }
  await new Semaphore(client, freshPath(), 1).using(({ mode }) => modes.push(mode));
  await new Election(client, freshPath()).using(({ mode }) => modes.push(mode));
  assert.deepEqual(modes, ['mutex', 'mutex', 'read', 'write', 'permit', 'leadership']);
});

scenario('a second release is NotHeldError, a second disposal is nothing', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  await lease.release();
  await assert.rejects(lease.release(), NotHeldError);
  await assert.rejects(lease.release({ wait: false }), NotHeldError);
  assert.throws(() => lease.check(), NotHeldError);
  await lease[Symbol.asyncDispose]();
  const disposed = await mutex.acquire();
  await disposed[Symbol.asyncDispose]();
  assert.deepEqual(await contenders(mutex.path), []);
});

scenario('release without waiting is on its way at once', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  await lease.release({ wait: false });
  await untilContenders(mutex.path, 0);
});

scenario('the signal aborts with LockLostError when an operator deletes the node', async (t) => {
  // The test waits only for the loss, so `ref()` must keep the process alive.
  const client = (await connected(t)).ref();
  const mutex = new Mutex(client, freshPath());
  const lease = await mutex.acquire();
  const { signal } = lease;
  assert.equal(lease.signal, signal);
  assert.equal(signal.aborted, false);
  // The client watches a node that it has held for long enough.
  await sleep(400);
  await deleteNode(lease.node);
  const reason = await aborted(signal);
  assert.ok(reason instanceof LockLostError);
  assert.match(reason.message, /node deleted/);
  assert.equal(lease.state, 'lost');
  assert.throws(() => lease.check(), { code: 'LOCK_LOST' });
  await lease.release();
});

scenario('the signal aborts when the client is closed, for every lease, even if it is read later', async () => {
  const client = await Client.connect(hosts);
  const mutex = new Mutex(client, freshPath());
  const outer = await mutex.acquire();
  const inner = await mutex.acquire({ within: outer });
  const reasons = [aborted(outer.signal), aborted(inner.signal)];
  const late = await mutex.acquire({ within: outer });
  await client.close();
  for (const reason of await Promise.all(reasons)) assert.match(reason.message, /client closed/);
  assert.equal(late.signal.aborted, true);
  assert.equal(late.signal.reason.code, 'LOCK_LOST');
});

scenario('the signal of a released lease never aborts', async () => {
  const client = await Client.connect(hosts);
  const lease = await new Mutex(client, freshPath()).acquire();
  const { signal } = lease;
  await lease.release();
  await client.close();
  await sleep(50);
  assert.equal(signal.aborted, false);
  assert.equal(lease.signal, signal);
});

scenario('a scope that is forgotten is collected and released, even if another client was created in it', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const inner = new Mutex(await connected(t), freshPath());
  await new Promise((resolve) => {
    void mutex.using(async () => {
      await inner.using(() => undefined);
      resolve();
      await new Promise(() => undefined);
    });
  });
  assert.equal((await contenders(mutex.path)).length, 1);
  await until('the lease is collected and released', async () => {
    globalThis.gc();
    return (await contenders(mutex.path)).length === 0;
  });
});

const lose = async (lease) => {
  assert.ok(lease.remaining > 0);
  const lost = aborted(lease.signal);
  await deleteNode(lease.node);
  await lost;
  assert.equal(lease.remaining, 0);
};

/** Returns the error of a scope that loses its lock before its body ends with `end`. */
async function endOfLostScope(context, end) {
  const client = (await connected(context)).ref();
  const scope = new Mutex(client, freshPath()).using(async (lease) => {
    await lose(lease);
    return end(lease);
  });
  return scope.then(
    (value) => assert.fail(`it ended with ${value}`),
    (error) => error,
  );
}

const throwing = (error) => () => {
  throw error;
};

scenario('a scope whose lock was lost rejects with the loss if its body ended, or was aborted by the loss', async (t) => {
  const ended = await endOfLostScope(t, () => 'done');
  assert.deepEqual([ended.code, ended.reason, ended.cause], ['LOCK_LOST', 'node deleted', undefined]);
  const noticed = await endOfLostScope(t, (lease) => lease.check());
  assert.deepEqual([noticed.code, noticed.reason, noticed.cause], ['LOCK_LOST', 'node deleted', undefined]);
  const thrown = await endOfLostScope(t, ({ signal }) => signal.throwIfAborted());
  assert.deepEqual([thrown.code, thrown.reason, thrown.cause], ['LOCK_LOST', 'node deleted', undefined]);
  // Node's own functions wrap the reason of a signal.
  let abort;
  const cancelled = await endOfLostScope(t, async ({ signal }) => {
    await sleepUntilAborted(1000, undefined, { signal }).catch((error) => {
      abort = error;
      throw error;
    });
  });
  assert.deepEqual([abort.name, abort.cause.code], ['AbortError', 'LOCK_LOST']);
  assert.deepEqual([cancelled.code, cancelled.reason, cancelled.cause], ['LOCK_LOST', 'node deleted', abort]);
});

scenario("an error of the body's own wins over the loss, which is the last of its causes", async (t) => {
  class Declined extends Error {}
  const plain = new Declined('order 17');
  assert.equal(await endOfLostScope(t, throwing(plain)), plain);
  assert.deepEqual([plain.cause.code, plain.cause.reason], ['LOCK_LOST', 'node deleted']);
  // The `cause` is not enumerable, like one that the `Error` constructor sets.
  assert.ok(!Object.keys(plain).includes('cause'));
  const socket = new Error('reset');
  const caused = new Declined('order 18', { cause: socket });
  assert.equal(await endOfLostScope(t, throwing(caused)), caused);
  assert.equal(caused.cause, socket);
  assert.equal(socket.cause.code, 'LOCK_LOST');
  // An abort by another signal is an error of the body.
  const controller = new AbortController();
  controller.abort();
  const stopped = await endOfLostScope(t, throwing(controller.signal.reason));
  assert.equal(stopped, controller.signal.reason);
});

scenario('the loss is attached once, and only to an error that can have a cause', async (t) => {
  let loss;
  const wrapped = await endOfLostScope(t, (lease) => {
    loss = lease.signal.reason;
    throw new Error('the report is not written', { cause: loss });
  });
  assert.deepEqual([wrapped.message, wrapped.cause, loss.cause], ['the report is not written', loss, undefined]);
  const again = new Error('thrown twice');
  for (let turn = 0; turn < 2; turn++) assert.equal(await endOfLostScope(t, throwing(again)), again);
  assert.deepEqual([again.cause.code, again.cause.cause], ['LOCK_LOST', undefined]);
  const frozen = Object.freeze(new Error('frozen'));
  assert.equal(await endOfLostScope(t, throwing(frozen)), frozen);
  assert.equal(frozen.cause, undefined);
  const circle = new Error('circle');
  circle.cause = circle;
  assert.equal(await endOfLostScope(t, throwing(circle)), circle);
  assert.equal(circle.cause, circle);
  assert.equal(await endOfLostScope(t, throwing('text')), 'text');
  assert.equal(await endOfLostScope(t, throwing(undefined)), undefined);
});

scenario('a release waits no longer than its timeout or signal permits, and continues in the background', async (t) => {
  const line = await proxy(t);
  const client = await Client.connect(line.hosts, { sessionTimeout: 4000 });
  t.after(() => client.close());
  const mutex = new Mutex(client, freshPath());
  const took = async (options) => {
    const lease = await mutex.acquire();
    line.silence();
    const lateness = monitorEventLoopDelay({ resolution: 5 });
    lateness.enable();
    const began = performance.now();
    await lease.release(options());
    const ms = performance.now() - began;
    lateness.disable();
    await assert.rejects(lease.release(options()), NotHeldError);
    line.speak();
    await untilContenders(mutex.path, 0);
    // The bounds include the delay of the event loop on a busy machine.
    return { ms, late: lateness.max / 1e6 };
  };
  for (const options of [() => ({ timeout: 200 }), () => ({ signal: AbortSignal.timeout(200) })]) {
    const { ms, late } = await took(options);
    assert.ok(ms > 180 && ms < 400 + late, `${ms} ms`);
  }
  // If the signal has already aborted, the release starts, but the caller does not wait for it.
  for (const options of [() => ({ signal: AbortSignal.abort() }), () => ({ timeout: 0 })]) {
    const { ms, late } = await took(options);
    assert.ok(ms < 100 + late, `${ms} ms`);
  }
});

scenario('the arguments of a release are checked before it begins', async (t) => {
  const mutex = new Mutex(await connected(t), freshPath());
  const lease = await mutex.acquire();
  for (const timeout of [-1, Number.NaN]) await assert.rejects(lease.release({ timeout }), BadArgumentError);
  await assert.rejects(lease.release({ wait: false, timeout: 1 }), BadArgumentError);
  await assert.rejects(lease.release({ timeout: '1' }), TypeError);
  await assert.rejects(lease.release({ signal: 1 }), TypeError);
  assert.equal(lease.state, 'held');
  await lease.release({ timeout: 5000, signal: AbortSignal.timeout(5000) });
  await untilContenders(mutex.path, 0);
});

scenario('tryUsing runs the body if the lock is free, and resolves with null if it is taken', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  const nodes = [];
  const body = (lease) => (nodes.push(lease.node), lease.path);
  assert.equal(await mutex.tryUsing(body), mutex.path);
  assert.equal(await mutex.tryUsing({ signal: AbortSignal.timeout(5000) }, body), mutex.path);
  assert.equal(nodes.length, 2);
  const lease = await mutex.acquire();
  assert.equal(await mutex.tryUsing(body), null);
  assert.equal(nodes.length, 2);
  // For its owner, the lock does not count as taken. Inside the scope, the owner can acquire it
  // again.
  assert.equal(await mutex.tryUsing({ within: lease }, () => mutex.tryUsing(body)), mutex.path);
  assert.equal(nodes[2], lease.node);
  // A `LOCK_TIMEOUT` from the body does not mean that this lock is taken.
  const inner = mutex.tryUsing({ within: lease }, async () => new Mutex(client, lease.path, { reentrant: false }).acquire({ timeout: 0 }));
  await assert.rejects(inner, { code: 'LOCK_TIMEOUT' });
  lease.check();
  await lease.release();
  assert.equal(await mutex.locked(), false);
  await assert.rejects(mutex.tryUsing({ signal: AbortSignal.abort() }, body), { name: 'AbortError' });
  await assert.rejects(mutex.tryUsing('now'), TypeError);
});

scenario('tryUsing of several locks takes all or runs nothing', async (t) => {
  const client = await connected(t);
  const locks = [new Mutex(client, freshPath()), new Mutex(client, freshPath())];
  const several = new MultiLock(locks);
  assert.equal(await several.tryUsing((leases) => leases.length), 2);
  const lease = await locks[1].acquire();
  assert.equal(await several.tryUsing({ signal: AbortSignal.timeout(5000) }, (leases) => leases.length), null);
  // The first lock is released in the background.
  await untilNobodyContends(locks[0]);
  assert.equal((await locks[1].contenders()).length, 1);
  await lease.release();
});
