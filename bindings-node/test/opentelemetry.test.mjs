// Tests of spans and metrics with the OpenTelemetry SDK.

import assert from 'node:assert/strict';
import { after } from 'node:test';

import { SpanStatusCode, context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Client, Election, LockLostError, LockTimeoutError, MultiLock, Mutex, ReadWriteLock, Semaphore } from 'zklock';
import { instrument, observe, traced } from 'zklock/opentelemetry';

import { connected, createNode, freshPath, hosts, scenario, sleep, until } from './support.mjs';

const manager = new AsyncLocalStorageContextManager().enable();
context.setGlobalContextManager(manager);
after(() => manager.disable());

function tracing() {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = tracerProvider.getTracer('test');
  /** Returns the ended spans, in the order in which they ended. */
  const spans = () => exporter.getFinishedSpans();
  /** Runs `body` inside a span. */
  const within = (name, body) =>
    tracer.startActiveSpan(name, async (span) => {
      try {
        return await body();
      } finally {
        span.end();
      }
    });
  return { tracerProvider, tracer, spans, within, clear: () => exporter.reset() };
}

const attributes = ({ attributes }) => Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.replace('zklock.', ''), value]));
const names = (spans) => spans.map(({ name }) => name);
const parent = (span) => span.parentSpanContext?.spanId;
const id = (span) => span.spanContext().spanId;

scenario('a wait and a hold are spans, with those of the body below', async (t) => {
  const [client, path, { tracerProvider, spans, within }] = [await connected(t), freshPath(), tracing()];
  const { writeLock } = new ReadWriteLock(client, path);
  const lease = await within('request', () =>
    traced(writeLock, { tracerProvider, timeout: 5000 }, async (held) => {
      assert.equal(held.state, 'held');
      await within('work', () => sleep(1));
      return held;
    }),
  );
  assert.equal(lease.state, 'released');
  const [wait, work, hold, request] = spans();
  assert.deepEqual(names(spans()), ['zklock wait', 'work', 'zklock hold', 'request']);
  assert.deepEqual([parent(wait), parent(hold), parent(work)], [id(request), id(request), id(hold)]);
  const common = { path, mode: 'write', node: lease.node, fencing_token: String(lease.fencingToken) };
  assert.deepEqual(attributes(wait), { ...common, outcome: 'acquired' });
  assert.deepEqual(attributes(hold), { ...common, outcome: 'released' });
  assert.deepEqual([wait, hold].map(({ status }) => status.code), [SpanStatusCode.UNSET, SpanStatusCode.UNSET]);
  assert.equal(wait.instrumentationScope.name, 'zklock');
  assert.match(wait.instrumentationScope.version, /^\d+\.\d+\.\d+/);
});

scenario('a body that runs once per slot has spans, and one that does not has a wait', async (t) => {
  const [client, path, { tracerProvider, spans, within }] = [await connected(t), freshPath(), tracing()];
  t.after(instrument(client, { tracerProvider }));
  const mutex = new Mutex(client, path);
  await mutex.once('slot', () => within('work', () => sleep(1)));
  await assert.rejects(mutex.once('other', () => Promise.reject(new Error('mine'))), /mine/);
  assert.equal(await mutex.once('slot', () => 'again'), null);
  assert.deepEqual(names(spans()), ['zklock wait', 'work', 'zklock hold', 'zklock wait', 'zklock hold', 'zklock wait']);
  const [, work, hold, , failed, skipped] = spans();
  assert.equal(parent(work), id(hold));
  assert.equal(attributes(hold).outcome, 'released');
  assert.deepEqual([attributes(failed).outcome, failed.status.code], ['released', SpanStatusCode.ERROR]);
  assert.deepEqual(attributes(skipped), { path, outcome: 'recorded' });
});

scenario('a time-out and a loss are errors with their reasons', async (t) => {
  const [client, other, path, { tracerProvider, spans, clear }] = [await connected(t), await connected(t), freshPath(), tracing()];
  const mutex = new Mutex(client, path);
  await new Mutex(other, path).using(async () => {
    await assert.rejects(traced(mutex, { tracerProvider, timeout: 50 }, () => undefined), LockTimeoutError);
    await assert.rejects(traced(mutex, { tracerProvider, timeout: 0 }, () => undefined), LockTimeoutError);
    await assert.rejects(traced(mutex, { tracerProvider, signal: AbortSignal.timeout(20) }, () => undefined), { name: 'TimeoutError' });
  });
  const [late, busy, aborted] = spans();
  assert.deepEqual(attributes(late), { path, outcome: 'timeout' });
  assert.equal(late.status.code, SpanStatusCode.ERROR);
  assert.equal(late.events[0].name, 'exception');
  assert.deepEqual([attributes(busy).outcome, busy.status.code], ['busy', SpanStatusCode.UNSET]);
  assert.deepEqual([attributes(aborted).outcome, aborted.status.code], ['TimeoutError', SpanStatusCode.ERROR]);
  clear();
  const losing = traced(mutex, { tracerProvider }, async (lease) => {
    await other.breakLock(lease.node);
    await until('it is lost', () => lease.state === 'lost');
  });
  await assert.rejects(losing, LockLostError);
  const hold = spans()[1];
  assert.deepEqual([attributes(hold).outcome, attributes(hold).lost_reason, hold.status.code], ['lost', 'node deleted', SpanStatusCode.ERROR]);
});

scenario('an error has the same name as in every language', async () => {
  const { tracerProvider, spans } = tracing();
  const client = new Client('127.0.0.1:1', { connectTimeout: 50 });
  await client.close();
  await assert.rejects(traced(new Mutex(client, '/closed'), { tracerProvider }, () => undefined), { code: 'CLIENT_CLOSED' });
  assert.equal(attributes(spans()[0]).outcome, 'ClientClosed');
});

scenario('what the body throws is an error of the hold', async (t) => {
  const [client, { tracerProvider, spans }] = [await connected(t), tracing()];
  const mutex = new Mutex(client, freshPath());
  // Some results can be awaited but are not promises, such as a database query.
  const query = { then: (_, reject) => reject(new RangeError('no')) };
  for (const body of [() => { throw new RangeError('no'); }, async () => { throw new RangeError('no'); }, () => query]) {
    await assert.rejects(traced(mutex, { tracerProvider }, body), RangeError);
  }
  const holds = spans().filter(({ name }) => name === 'zklock hold');
  assert.equal(holds.length, 3);
  for (const hold of holds) {
    assert.deepEqual([hold.status.code, hold.status.message], [SpanStatusCode.ERROR, 'RangeError: no']);
    assert.deepEqual(names(hold.events), ['exception']);
    assert.equal(attributes(hold).outcome, 'released');
  }
});

scenario('an instrumented client has every hold traced, whatever acquires it', async (t) => {
  const [client, path, { tracerProvider, spans, clear, within }] = [await connected(t), freshPath(), tracing()];
  const stop = instrument(client, { tracerProvider });
  const exported = () => {
    const said = spans().map((span) => [span.name, attributes(span).mode, attributes(span).outcome]);
    clear();
    return said;
  };
  const once = (mode) => [['zklock wait', mode, 'acquired'], ['zklock hold', mode, 'released']];
  const both = new ReadWriteLock(client, path);
  await both.readLock.using(() => within('work', () => undefined));
  const [, work, hold] = spans();
  assert.equal(parent(work), id(hold));
  clear();
  await (await new Mutex(client, path).acquire()).release();
  assert.deepEqual(exported(), once('mutex'));
  await (await both.writeLock.tryAcquire()).release({ wait: false });
  assert.deepEqual(exported(), once('write'));
  await client.request(path, { mode: 'shared' }, () => undefined);
  assert.deepEqual(exported(), once('read'));
  const semaphore = new Semaphore(client, `${path}-slots`, 3);
  await semaphore.using(() => undefined);
  assert.deepEqual(exported(), once('permit'));
  const permits = await semaphore.acquireMany(2);
  await permits.release();
  assert.deepEqual(exported(), [once('permit')[0], once('permit')[1], once('permit')[1]]);
  await new Election(client, `${path}-election`).using(() => undefined);
  assert.deepEqual(exported(), once('leadership'));
  await new MultiLock([new Mutex(client, `${path}-1`), both.writeLock]).using(() => undefined);
  assert.deepEqual(exported().map(([name, mode]) => `${name} ${mode}`).sort(), ['zklock hold mutex', 'zklock hold write', 'zklock wait mutex', 'zklock wait write']);
  stop();
  await new Mutex(client, path).using(() => undefined);
  assert.deepEqual(exported(), []);
});

scenario('each wait of several locks has the node of its own, also on one path', async (t) => {
  const [root, { tracerProvider, spans, clear }] = [freshPath(), tracing()];
  for (const path of [root, `${root}/a`, `${root}/b`]) await createNode(path);
  const clients = await Promise.all(['a', 'b'].map((chroot) => Client.connect(`${hosts}${root}/${chroot}`)));
  for (const client of clients) t.after(() => client.close());
  t.after(instrument({ a: clients[0], b: clients[1] }, { tracerProvider }));
  const { readLock, writeLock } = new ReadWriteLock(clients[0], '/halves');
  for (const locks of [clients.map((client) => new Mutex(client, '/same')), [readLock, writeLock]]) {
    const leases = await new MultiLock(locks).acquire();
    assert.equal(new Set(leases.map(({ path }) => path)).size, 1);
    const own = leases.map(({ path, mode, node, fencingToken }) => ({ path, mode, node, fencing_token: String(fencingToken), outcome: 'acquired' }));
    assert.deepEqual(spans().map(attributes), own);
    await leases.release();
    clear();
  }
});

scenario('a failed attempt at several locks or permits is reported for each lock', async (t) => {
  const [client, other, path, { tracerProvider, spans, clear }] = [await connected(t), await connected(t), freshPath(), tracing()];
  t.after(instrument(client, { tracerProvider }));
  const paths = [`${path}/a`, `${path}/b`];
  const both = new MultiLock(paths.map((one) => new Mutex(client, one)));
  const semaphore = new Semaphore(client, `${path}/slots`, 3);
  const exported = () => {
    const said = spans().map((span) => [span.name, attributes(span), span.status.code, names(span.events)]);
    clear();
    return said;
  };
  const late = (one) => ['zklock wait', { path: one, outcome: 'timeout' }, SpanStatusCode.ERROR, ['exception']];
  const busy = (one) => ['zklock wait', { path: one, outcome: 'busy' }, SpanStatusCode.UNSET, []];
  const leases = [await new Mutex(other, paths[1]).acquire(), await new Semaphore(other, semaphore.path, 3).acquire()];
  await assert.rejects(both.acquire({ timeout: 50 }), LockTimeoutError);
  assert.deepEqual(exported(), paths.map(late));
  assert.equal(await both.tryAcquire(), null);
  assert.deepEqual(exported(), paths.map(busy));
  await assert.rejects(semaphore.acquireMany(3, { timeout: 50 }), LockTimeoutError);
  assert.deepEqual(exported(), [late(semaphore.path)]);
  await assert.rejects(semaphore.acquireMany(3, { timeout: 0 }), LockTimeoutError);
  assert.deepEqual(exported(), [busy(semaphore.path)]);
  for (const lease of leases) await lease.release();
});

scenario('invalid options are refused as without a tracer, and are not traced', async (t) => {
  const [client, path, { tracerProvider, spans }] = [await connected(t), freshPath(), tracing()];
  t.after(instrument(client, { tracerProvider }));
  const mutex = new Mutex(client, path);
  const takers = {
    lock: (options) => mutex.acquire(options),
    multi: (options) => new MultiLock([mutex]).acquire(options),
    semaphore: (options) => new Semaphore(client, `${path}-slots`, 2).acquireMany(2, options),
    election: (options) => new Election(client, `${path}-election`).campaign(options),
  };
  for (const [name, take] of Object.entries(takers)) {
    await assert.rejects(take(null), { name: 'TypeError', message: 'options: must be an object, but is null' }, name);
    await assert.rejects(take({ timout: 5 }), { code: 'BAD_ARGUMENT', message: /did you mean 'timeout'/ }, name);
  }
  assert.deepEqual(names(spans()), []);
});

scenario('a re-entry has no spans, and what traced() runs is not traced twice', async (t) => {
  const [client, path, { tracerProvider, spans, clear }] = [await connected(t), freshPath(), tracing()];
  t.after(instrument(client, { tracerProvider }));
  const mutex = new Mutex(client, path);
  await mutex.using(async (lease) => {
    await mutex.using(() => undefined);
    await (await mutex.acquire()).release();
    await (await mutex.acquire({ within: lease })).release();
    assert.deepEqual(names(spans()), ['zklock wait']);
  });
  assert.deepEqual(names(spans()), ['zklock wait', 'zklock hold']);
  clear();
  const other = tracing();
  await traced(mutex, { tracerProvider: other.tracerProvider }, () => new Mutex(client, `${path}-2`).using(() => undefined));
  assert.deepEqual(names(other.spans()), ['zklock wait', 'zklock hold']);
  // The inner scope uses another lock.
  assert.deepEqual(spans().map((span) => attributes(span).path), [`${path}-2`, `${path}-2`]);
});

scenario('a hold without a body ends with its loss, and with its lease', async (t) => {
  const [client, other, path, { tracerProvider, spans, clear }] = [await connected(t), await connected(t), freshPath(), tracing()];
  t.after(instrument({ client }, { tracerProvider }));
  const lease = await new Mutex(client, path).acquire();
  assert.deepEqual(names(spans()), ['zklock wait']);
  await other.breakLock(lease.node);
  await until('the span ends', () => spans().length === 2);
  assert.deepEqual([attributes(spans()[1]).outcome, attributes(spans()[1]).lost_reason], ['lost', 'node deleted']);
  await lease.release();
  assert.equal(spans().length, 2);
  clear();
  // This lease is neither released nor referenced.
  await (async () => void (await new Mutex(client, path).acquire()))();
  await until('it is collected', () => {
    globalThis.gc();
    return spans().length === 2;
  });
  assert.equal(attributes(spans()[1]).outcome, 'released');
});

scenario('a loss that only the release discovers is reported', async (t) => {
  const [client, other, path, { tracerProvider, spans }] = [await connected(t), await connected(t), freshPath(), tracing()];
  const losing = traced(new Mutex(client, path), { tracerProvider }, (lease) => other.breakLock(lease.node));
  await assert.rejects(losing, LockLostError);
  const [, hold] = spans();
  assert.deepEqual([attributes(hold).outcome, attributes(hold).lost_reason], ['lost', 'node deleted']);
});

scenario('the newest of several tracers of a client receives the holds, until it is ended', async (t) => {
  const [client, first, second] = [await connected(t), tracing(), tracing()];
  const mutex = new Mutex(client, freshPath());
  const stopFirst = instrument(client, { tracerProvider: first.tracerProvider });
  const stopSecond = instrument(client, { tracerProvider: second.tracerProvider });
  await mutex.using(() => undefined);
  stopFirst();
  await mutex.using(() => undefined);
  stopSecond();
  await mutex.using(() => undefined);
  assert.deepEqual([first.spans().length, second.spans().length], [0, 4]);
});

scenario('arguments that are not locks or clients, and unknown options, are refused', async (t) => {
  const client = await connected(t);
  const mutex = new Mutex(client, freshPath());
  await assert.rejects(traced(client, () => undefined), { name: 'TypeError', message: /^lock: must be a Lock/ });
  await assert.rejects(traced(mutex, { timout: 5 }, () => undefined), { code: 'BAD_ARGUMENT', message: /did you mean 'timeout'/ });
  await assert.rejects(traced(mutex, { tracerProvider: 1 }, () => undefined), TypeError);
  await assert.rejects(traced(mutex), TypeError);
  assert.throws(() => instrument('127.0.0.1:2181'), TypeError);
  assert.throws(() => instrument(client, { provider: {} }), { code: 'BAD_ARGUMENT' });
  assert.throws(() => observe(client, { path: 'path' }), TypeError);
});

/** Returns a meter with its numbers, by name and attributes. */
function metering() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const read = async () => {
    exporter.reset();
    await reader.forceFlush();
    return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  };
  const numbers = async () =>
    Object.fromEntries(
      (await read()).flatMap(({ descriptor, dataPoints }) =>
        dataPoints.map(({ attributes, value }) => [
          [descriptor.name, ...Object.keys(attributes).sort().map((name) => attributes[name])].join(' '),
          value,
        ]),
      ),
    );
  return { meterProvider, read, numbers, shutdown: () => meterProvider.shutdown() };
}

scenario('a meter reads statistics and health', async (t) => {
  const [client, path, { meterProvider, numbers, shutdown }] = [await connected(t), freshPath(), metering()];
  t.after(shutdown);
  const stop = observe({ a: client }, { path: (one) => one.slice(0, 5), meterProvider });
  assert.equal((await numbers())['zklock.acquisitions a'], 0);
  const lease = await new Mutex(client, path).acquire();
  const exported = await numbers();
  assert.equal(exported['zklock.acquisitions a'], 1);
  assert.equal(exported['zklock.holders a mutex /test'], 1);
  assert.equal(exported['zklock.losses a term ended'], 0);
  assert.equal(exported['zklock.requests a create'], client.stats().requests.create);
  assert.equal(exported['zklock.state a connected'], 1);
  assert.equal(exported['zklock.state a closed'], 0);
  assert.equal(exported['zklock.responsive a'], 1);
  const remaining = exported['zklock.term.remaining a'];
  assert.ok(remaining > 0 && remaining <= client.sessionTimeout / 2000);
  assert.ok(exported['zklock.oldest.hold a'] > 0 && exported['zklock.oldest.hold a'] < 30);
  assert.equal(exported['zklock.oldest.wait a'], 0);
  await lease.release();
  // A gauge keeps its last value, so a change to zero must be observed too.
  assert.equal((await numbers())['zklock.holders a mutex /test'], 0);
  await new Mutex(client, path).using(async () => assert.equal((await numbers())['zklock.holders a mutex /test'], 1));
  const { acquisitions } = client.stats();
  stop();
  await new Mutex(client, path).using(() => undefined);
  assert.ok(((await numbers())['zklock.acquisitions a'] ?? 0) <= acquisitions);
});
