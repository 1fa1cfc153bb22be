// Tests of metrics in prom-client registries, in the format that Prometheus reads.

import assert from 'node:assert/strict';

import { AggregatorRegistry, Gauge, Registry, register } from 'prom-client';
import { Mutex } from 'zklock';
import { Collector } from 'zklock/prometheus';

import { connected, freshPath, scenario, until } from './support.mjs';

/** Returns a registry with a collector. */
function collected(clients, options) {
  const registry = new Registry();
  new Collector(clients, { ...options, registers: [registry] });
  return registry;
}

/** Returns the values of a scrape, by name and labels. */
async function scrape(registry) {
  const text = await registry.metrics();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]));
}

scenario('a scrape has the counters and the gauges', async (t) => {
  const [client, other, path] = [await connected(t), await connected(t), freshPath()];
  const registry = collected(client);
  const before = await scrape(registry);
  assert.equal(before['zklock_acquisitions_total{client=""}'], 0);
  assert.equal(before['zklock_holders{client="",mode="mutex",path=""}'], 0);
  const lease = await new Mutex(client, path).acquire();
  const held = await scrape(registry);
  assert.equal(held['zklock_acquisitions_total{client=""}'], 1);
  assert.equal(held['zklock_sessions_total{client=""}'], 1);
  assert.equal(held['zklock_holders{client="",mode="mutex",path=""}'], 1);
  assert.ok(held['zklock_oldest_hold_seconds{client=""}'] > 0);
  const remaining = held['zklock_term_remaining_seconds{client=""}'];
  assert.ok(remaining > 0 && remaining <= client.sessionTimeout / 2000, String(remaining));
  assert.deepEqual(
    ['idle', 'connecting', 'connected', 'suspended', 'closed'].map((state) => held[`zklock_state{client="",state="${state}"}`]),
    [0, 0, 1, 0, 0],
  );
  assert.equal(held['zklock_responsive{client=""}'], 1);
  assert.equal(held['zklock_requests_total{client="",kind="create"}'], client.stats().requests.create);
  assert.ok(client.stats().requests.create > 0);

  const waiting = new Mutex(other, path).acquire();
  const theirs = collected(other);
  await until('it waits', async () => (await scrape(theirs))['zklock_waiters{client="",mode="mutex",path=""}'] === 1);
  assert.ok((await scrape(theirs))['zklock_oldest_wait_seconds{client=""}'] > 0);
  // Until the waiter's create request is answered, the waiter might still find the lock free and
  // count as uncontended.
  await until('it knows of the holder', () => other.health().waits[0]?.behind);
  await client.breakLock(lease.node);
  await until('it is lost', () => lease.state === 'lost');
  await (await waiting).release();
  const lost = await scrape(registry);
  assert.equal(lost['zklock_losses_total{client="",reason="node deleted"}'], 1);
  assert.equal(lost['zklock_losses_total{client="",reason="term ended"}'], 0);
  assert.equal((await scrape(theirs))['zklock_contended_total{client=""}'], 1);
});

scenario('waits and holds are histograms in seconds', async (t) => {
  const client = await connected(t);
  const registry = collected(client);
  const mutex = new Mutex(client, freshPath());
  await mutex.using(() => undefined);
  await mutex.using(() => undefined);
  const samples = await scrape(registry);
  const { wait, hold } = client.stats();
  for (const [name, { buckets, count, sum }] of Object.entries({ wait, hold })) {
    assert.equal(samples[`zklock_${name}_seconds_count{client=""}`], 2);
    assert.equal(samples[`zklock_${name}_seconds_sum{client=""}`], sum / 1000);
    const bounds = buckets.map(([bound, below]) => [`zklock_${name}_seconds_bucket{client="",le="${bound / 1000}"}`, below]);
    for (const [key, below] of [...bounds, [`zklock_${name}_seconds_bucket{client="",le="+Inf"}`, count]]) assert.equal(samples[key], below, key);
    assert.ok(bounds.some(([key]) => key.includes('le="0.0001"')) && bounds.some(([key]) => key.includes('le="1000"')));
  }
  // The JSON form has the same values. The processes of a cluster exchange metrics in this form.
  const json = (await registry.getMetricsAsJSON()).find(({ name }) => name === 'zklock_wait_seconds');
  assert.equal(json.type, 'histogram');
  assert.equal(json.values.find(({ labels }) => labels.le === '+Inf').value, 2);
  const cluster = AggregatorRegistry.aggregate([await registry.getMetricsAsJSON(), await registry.getMetricsAsJSON()]);
  assert.equal((await scrape(cluster))['zklock_wait_seconds_bucket{client="",le="+Inf"}'], 4);
  assert.equal((await scrape(cluster))['zklock_responsive{client=""}'], 1);
});

scenario('paths are exported only on request, and several clients have their names as labels', async (t) => {
  const [a, b, path] = [await connected(t), await connected(t), freshPath()];
  const leases = [await new Mutex(a, `${path}/1`).acquire(), await new Mutex(a, `${path}/2`).acquire()];
  assert.ok(!(await collected(a).metrics()).includes(path));
  const samples = await scrape(collected({ a, b }, { path: (one) => one.slice(0, one.lastIndexOf('/')) }));
  assert.equal(samples[`zklock_holders{client="a",mode="mutex",path="${path}"}`], 2);
  assert.equal(samples['zklock_holders{client="b",mode="mutex",path=""}'], 0);
  for (const lease of leases) await lease.release();
});

scenario('a label that no longer applies is gone', async (t) => {
  const [client, path] = [await connected(t), freshPath()];
  const registry = collected(client, { path: (one) => one });
  const lease = await new Mutex(client, path).acquire();
  const key = `zklock_holders{client="",mode="mutex",path="${path}"}`;
  assert.equal((await scrape(registry))[key], 1);
  await lease.release();
  assert.ok(!(key in (await scrape(registry))));
});

scenario('a closed client can still be scraped', async (t) => {
  const client = await connected(t);
  await client.close();
  const samples = await scrape(collected(client));
  assert.equal(samples['zklock_state{client="",state="closed"}'], 1);
  assert.equal(samples['zklock_term_remaining_seconds{client=""}'], 0);
});

scenario('all metrics of a scrape are of one moment, and the next one is of another', async (t) => {
  const client = await connected(t);
  let asked = 0;
  const { health } = client;
  client.health = () => ((asked += 1), health.call(client));
  const registry = collected(client);
  await registry.metrics();
  assert.equal(asked, 1);
  await registry.metrics();
  assert.equal(asked, 2);
});

scenario('a collector registers with the default registry, and can be removed from it', async (t) => {
  const client = await connected(t);
  const collector = new Collector(client);
  assert.throws(() => new Collector(client), /already been registered/);
  assert.ok(register.getSingleMetric('zklock_wait_seconds'));
  collector.unregister();
  assert.deepEqual(register.getMetricsAsArray(), []);
  const second = new Collector(client);
  collector.unregister();
  assert.equal(register.getMetricsAsArray().length, 19);
  second.unregister();
});

scenario('a collector that cannot register all of its names leaves nothing in any registry', async (t) => {
  const client = await connected(t);
  const [free, taken] = [new Registry(), collected(client)];
  assert.throws(() => new Collector(client, { registers: [free, taken] }), /already been registered/);
  assert.deepEqual(free.getMetricsAsArray(), []);
  assert.equal(taken.getMetricsAsArray().length, 19);
  // The collector has already registered most of its metrics when it finds that this name is taken.
  const foreign = new Gauge({ name: 'zklock_holders', help: 'Of the program.', registers: [free] });
  assert.throws(() => new Collector(client, { registers: [free] }), /zklock_holders has already been registered/);
  assert.deepEqual(free.getMetricsAsArray(), [foreign]);
  free.removeSingleMetric('zklock_holders');
  new Collector(client, { registers: [free] });
  assert.equal(free.getMetricsAsArray().length, 19);
});

scenario('registries that can be listed only once all have every metric, until it leaves', async (t) => {
  const client = await connected(t);
  const registries = [new Registry(), new Registry()];
  const collector = new Collector(client, { registers: registries.values() });
  for (const registry of registries) assert.equal(Object.keys(await scrape(registry)).length, Object.keys(await scrape(collected(client))).length);
  // Both registries have the same metrics, so they can be merged.
  assert.equal(Registry.merge(registries).getMetricsAsArray().length, 19);
  collector.unregister();
  for (const registry of registries) assert.deepEqual(registry.getMetricsAsArray(), []);
});

scenario('more reports than a function takes arguments', async (t) => {
  const client = await connected(t);
  const waits = Array.from({ length: 200_000 }, (_, index) => ({ mode: 'mutex', path: '/busy', age: index }));
  const health = { ...client.health(), waits };
  client.health = () => health;
  const samples = await scrape(collected(client));
  assert.equal(samples['zklock_waiters{client="",mode="mutex",path=""}'], 200_000);
  assert.equal(samples['zklock_oldest_wait_seconds{client=""}'], 199.999);
});

scenario('OpenMetrics names counters in its own way', async (t) => {
  const client = await connected(t);
  const registry = new Registry(Registry.OPENMETRICS_CONTENT_TYPE);
  new Collector(client, { registers: [registry] });
  // Read the metrics twice, because a registry of this format renames the counters that it writes.
  for (let time = 0; time < 2; time += 1) {
    const text = await registry.metrics();
    assert.match(text, /^# TYPE zklock_acquisitions counter\nzklock_acquisitions_total\{client=""\} 0$/m);
    assert.match(text, /# EOF\n$/);
  }
});

scenario('registries of both formats have their own names for counters, whichever is read first', async (t) => {
  const client = await connected(t);
  const [plain, open] = [new Registry(), new Registry(Registry.OPENMETRICS_CONTENT_TYPE)];
  const collector = new Collector(client, { registers: [plain, open] });
  for (let time = 0; time < 2; time += 1) {
    assert.match(await open.metrics(), /^# TYPE zklock_acquisitions counter\nzklock_acquisitions_total\{client=""\} 0$/m);
    assert.match(await plain.metrics(), /^# TYPE zklock_acquisitions_total counter\nzklock_acquisitions_total\{client=""\} 0$/m);
  }
  collector.unregister();
  assert.deepEqual([...plain.getMetricsAsArray(), ...open.getMetricsAsArray()], []);
});

scenario('arguments that are not clients, and unknown options, are refused', async (t) => {
  const client = await connected(t);
  assert.throws(() => new Collector('127.0.0.1:2181'), { name: 'TypeError', message: 'clients: must be an object, but is string' });
  assert.throws(() => new Collector({ a: 'b' }), { name: 'TypeError', message: 'clients.a: must be a Client, but is string' });
  assert.throws(() => new Collector(client, { paths: () => '' }), { code: 'BAD_ARGUMENT', message: /did you mean 'path'/ });
  assert.deepEqual(register.getMetricsAsArray(), []);
});
