/**
 * Exports metrics of clients to Prometheus, through a registry of the package `prom-client`, which the program
 * installs.
 *
 * All values are read when Prometheus scrapes them. There is no other cost. In the examples, `client` is a
 * connected client, and `register` is the registry of `prom-client`.
 *
 * @module zklock/prometheus
 */

import {
  type Aggregator,
  Counter,
  Gauge,
  Histogram as PrometheusHistogram,
  type Metric,
  type MetricConfiguration,
  type OpenMetricsContentType,
  register,
  type Registry,
} from 'prom-client';

import type { Client } from './client';
import { type Clients, type Count, counted, COUNTS, HELP, named, oldest, type PathLabel, STATES } from './exporters';
import type { Health, HoldReport, WaitReport } from './health';
import { showAs } from './inspect';
import type { Histogram, Stats } from './stats';
import { inMicrotask } from './timers';
import { checkFunction, checkIterable, checkOptions } from './validate';

export type { Clients, PathLabel } from './exporters';

/** Registries of `prom-client`, in either of their formats. */
export type Registries = (Registry | Registry<OpenMetricsContentType>)[];

/** Options of a {@link Collector}. */
export interface CollectorOptions {
  /**
   * Returns the value of the label `path` for a lock's path, for `zklock_waiters` and `zklock_holders`. Return few
   * different values, because Prometheus keeps a separate series for each. Default: the label is empty.
   */
  path?: PathLabel | undefined;
  /** The registries for the metrics. Default: the registry that `prom-client` calls `register`. */
  registers?: Registries | undefined;
}

const checks = { path: checkFunction, registers: checkIterable };

/** The data of one client at one moment. */
interface ClientSnapshot {
  readonly client: string;
  readonly stats: Stats;
  readonly health: Health;
}

type Add = (labels: Record<string, string>, value: number) => void;
type AddValues = (snapshot: ClientSnapshot, add: Add) => void;

/** A metric with its name. */
type Named = readonly [name: string, metric: Metric];

/** Configuration of a gauge. `aggregator` combines the values of several processes in `prom-client`'s cluster mode. */
interface GaugeKind {
  help: string;
  labelNames: string[];
  aggregator: Aggregator;
}

/**
 * Exports the statistics and the health of one or more named clients as metrics of `prom-client`.
 *
 * The label `client` distinguishes several clients; a single client has an empty label. A registry can have one
 * collector for each process, because the metric names are fixed.
 *
 * @example
 * new Collector(client);
 * const text = await register.metrics();
 * console.log(text.includes('zklock_acquisitions_total{client=""} 1')); // true
 */
export class Collector {
  readonly #clients: readonly (readonly [string, Client])[];
  readonly #path: PathLabel;
  readonly #registered: { readonly registry: Registries[number]; readonly name: string; readonly metric: Metric }[] = [];
  #snapshots: readonly ClientSnapshot[] | undefined;

  /**
   * @param clients a client, or several clients by name.
   * @throws {Error} of `prom-client` if a registry already has a collector or another metric with one of the names. In
   *   this case, no registry is changed.
   */
  constructor(clients: Clients, options: CollectorOptions = {}) {
    this.#clients = named(clients);
    checkOptions<CollectorOptions>(options, checks);
    this.#path = options.path ?? (() => '');
    const registries = [...(options.registers ?? [register])];
    try {
      // Each format needs its own metrics, because an OpenMetrics registry renames the counters that it writes.
      for (const format of new Set(registries.map(({ contentType }) => contentType))) {
        const metrics = [...this.#counts(), ...this.#measures()];
        for (const registry of registries.filter(({ contentType }) => contentType === format)) {
          for (const [name, metric] of metrics) {
            registry.registerMetric(metric);
            this.#registered.push({ registry, name, metric });
          }
        }
      }
    } catch (error) {
      this.unregister();
      throw error;
    }
  }

  /**
   * Removes the metrics from their registries, for example before another collector replaces this one.
   *
   * @example
   * const collector = new Collector(client);
   * collector.unregister();
   * console.log(register.getSingleMetric('zklock_holders')); // undefined
   */
  unregister(): void {
    for (const { registry, name, metric } of this.#registered) {
      if (registry.getSingleMetric(name) === metric) registry.removeSingleMetric(name);
    }
  }

  /**
   * Returns one snapshot for all metrics of a scrape. A registry collects all metrics before any other code runs, so
   * the snapshot is dropped in the next microtask.
   */
  #takeSnapshots(): readonly ClientSnapshot[] {
    if (this.#snapshots === undefined) {
      this.#snapshots = this.#clients.map(([name, client]) => ({ client: name, stats: client.stats(), health: client.health() }));
      inMicrotask(() => (this.#snapshots = undefined));
    }
    return this.#snapshots;
  }

  #addValues(addValues: AddValues, add: Add): void {
    for (const snapshot of this.#takeSnapshots()) addValues(snapshot, (labels, value) => add({ client: snapshot.client, ...labels }, value));
  }

  #configuration<T extends string>(name: string, help: string, labelNames: T[]): MetricConfiguration<T> {
    // Registered later, once all metrics are created.
    return { name, help, labelNames, registers: [] };
  }

  #counter(name: string, help: string, labelNames: string[], addValues: AddValues): Named {
    const addTo = (add: Add): void => this.#addValues(addValues, add);
    const counter = new Counter({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      collect() {
        this.reset();
        addTo((labels, value) => this.inc(labels, value));
      },
    });
    return [name, counter];
  }

  #gauge(name: string, { help, labelNames, aggregator }: GaugeKind, addValues: AddValues): Named {
    const addTo = (add: Add): void => this.#addValues(addValues, add);
    const gauge = new Gauge({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      aggregator,
      collect() {
        this.reset();
        addTo((labels, value) => this.set(labels, value));
      },
    });
    return [name, gauge];
  }

  #histogram(name: string, help: string, of: (stats: Stats) => Histogram): Named {
    const values = (): HistogramValue[] => this.#takeSnapshots().flatMap(({ client, stats }) => valuesOf(name, client, of(stats)));
    return [name, new Counted(this.#configuration(name, help, ['client']), values)];
  }

  #counts(): Named[] {
    const counts = Object.entries(COUNTS) as [Count, string][];
    return [
      ...counts.map(([name, help]) => this.#counter(`zklock_${name}_total`, help, [], ({ stats }, add) => add({}, stats[name]))),
      this.#counter('zklock_losses_total', HELP.losses, ['reason'], ({ stats }, add) => {
        for (const [reason, count] of Object.entries(stats.lossesByReason)) add({ reason }, count);
      }),
      this.#counter('zklock_requests_total', HELP.requests, ['kind'], ({ stats }, add) => {
        for (const [kind, count] of Object.entries(stats.requests)) add({ kind }, count);
      }),
      this.#histogram('zklock_wait_seconds', 'Durations of the acquisitions, from the call to the grant.', ({ wait }) => wait),
      this.#histogram('zklock_hold_seconds', 'Durations of the holds that have ended.', ({ hold }) => hold),
    ];
  }

  #measures(): Named[] {
    const gauge = (name: string, help: string, aggregator: Aggregator, of: (health: Health) => number): Named =>
      this.#gauge(name, { help, labelNames: [], aggregator }, ({ health }, add) => add({}, of(health)));
    return [
      this.#gauge('zklock_state', { help: HELP.state, labelNames: ['state'], aggregator: 'sum' }, ({ health }, add) => {
        for (const one of STATES) add({ state: one }, Number(one === health.state));
      }),
      gauge('zklock_term_remaining_seconds', HELP.term, 'min', ({ remaining }) => remaining / 1000),
      gauge('zklock_responsive', HELP.responsive, 'min', ({ responsive }) => Number(responsive)),
      gauge('zklock_oldest_wait_seconds', HELP.oldestWait, 'max', ({ waits }) => oldest(waits) / 1000),
      gauge('zklock_oldest_hold_seconds', HELP.oldestHold, 'max', ({ holds }) => oldest(holds) / 1000),
      this.#now('zklock_waiters', HELP.waiters, ({ waits }) => waits),
      this.#now('zklock_holders', HELP.holders, ({ holds }) => holds),
    ];
  }

  #now(name: string, help: string, of: (health: Health) => readonly (WaitReport | HoldReport)[]): Named {
    return this.#gauge(name, { help, labelNames: ['mode', 'path'], aggregator: 'sum' }, ({ health }, add) => {
      const counts = counted(of(health), this.#path);
      // Report a zero if there are no attempts or holds, because a missing series would mean that the client was not
      // scraped.
      if (counts.length === 0) add({ mode: 'mutex', path: '' }, 0);
      for (const { mode, path = '', count } of counts) add({ mode, path }, count);
    });
  }
}

showAs(Collector.prototype, 'Collector', () => ({}));

interface HistogramValue {
  metricName: string;
  labels: { client: string; le?: number | string };
  value: number;
}

/** Converts a histogram to Prometheus values in seconds: one for each bound, the total count and the sum. */
function valuesOf(name: string, client: string, { buckets, count, sum }: Histogram): HistogramValue[] {
  const bucket = (le: number | string, value: number): HistogramValue => ({ metricName: `${name}_bucket`, labels: { client, le }, value });
  return [
    ...buckets.map(([bound, count]) => bucket(bound / 1000, count)),
    bucket('+Inf', count),
    { metricName: `${name}_sum`, labels: { client }, value: sum / 1000 },
    { metricName: `${name}_count`, labels: { client }, value: count },
  ];
}

/** A histogram with values that were counted elsewhere. `prom-client` only has histograms that it fills itself. */
class Counted extends PrometheusHistogram<'client'> {
  readonly #about: MetricConfiguration<'client'>;
  readonly #values: () => HistogramValue[];

  constructor(configuration: MetricConfiguration<'client'>, values: () => HistogramValue[]) {
    super(configuration);
    this.#about = configuration;
    this.#values = values;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as inherited
  override async get(): ReturnType<PrometheusHistogram<'client'>['get']> {
    const { name, help } = this.#about;
    // `prom-client` declares an enumeration for `type` and `aggregator`, but uses strings.
    const metric: unknown = { name, help, type: 'histogram', aggregator: 'sum', values: this.#values() };
    return metric as Awaited<ReturnType<PrometheusHistogram<'client'>['get']>>;
  }

  /**
   * Called by a registry when it writes text. The inherited method would report the empty buckets of the base class.
   */
  getForPromString(): ReturnType<PrometheusHistogram<'client'>['get']> {
    return this.get();
  }
}
