/**
 * Metrics of clients for Prometheus, in a registry of the package `prom-client`, which the program installs.
 *
 * Everything is read when Prometheus scrapes, and costs nothing before that. In the examples, `client` is a connected
 * client, and `register` is that of `prom-client`.
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
import { later } from './timers';
import { checkFunction, checkIterable, checkOptions } from './validate';

export type { Clients, PathLabel } from './exporters';

/** Registries of `prom-client`, in either of their formats. */
export type Registries = (Registry | Registry<OpenMetricsContentType>)[];

/** What to tell, and whom. */
export interface CollectorOptions {
  /**
   * What to call a lock's path in the label `path` of `zklock_waiters` and `zklock_holders`: few values, for each is a
   * series that Prometheus keeps. Default: the label is empty.
   */
  path?: PathLabel | undefined;
  /** Where to register the metrics. Default: the registry that `prom-client` calls `register`. */
  registers?: Registries | undefined;
}

const checks = { path: checkFunction, registers: checkIterable };

/** A client at one moment. */
interface Seen {
  readonly client: string;
  readonly stats: Stats;
  readonly health: Health;
}

type Add = (labels: Record<string, string>, value: number) => void;
type Tell = (seen: Seen, add: Add) => void;

/** A metric by its name. */
type Named = readonly [name: string, metric: Metric];

/** How the values of several processes become one, for `prom-client`'s cluster mode. */
interface GaugeKind {
  help: string;
  labelNames: string[];
  aggregator: Aggregator;
}

/**
 * The statistics and the health of a client, or of several under names of your choice, as metrics of `prom-client`.
 *
 * The label `client` tells several clients apart; with one alone it is empty. Each process can have one collector in a
 * registry, as the names of the metrics are always the same.
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
  #seen: readonly Seen[] | undefined;

  /**
   * @param clients a client, or several by their names.
   * @throws {Error} of `prom-client` if a registry already has a collector, or another metric of one of the names. Then
   *   none of the registries has changed.
   */
  constructor(clients: Clients, options: CollectorOptions = {}) {
    this.#clients = named(clients);
    checkOptions<CollectorOptions>(options, checks);
    this.#path = options.path ?? (() => '');
    const registries = [...(options.registers ?? [register])];
    try {
      // Each format has metrics of its own: a registry of OpenMetrics renames the counters that it writes.
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
   * Takes the metrics out of their registries, such as before another collector takes their place.
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

  /** All metrics of a scrape are of one moment: a registry asks each of them before anything else runs. */
  #see(): readonly Seen[] {
    if (this.#seen === undefined) {
      this.#seen = this.#clients.map(([name, client]) => ({ client: name, stats: client.stats(), health: client.health() }));
      later(() => (this.#seen = undefined));
    }
    return this.#seen;
  }

  #tell(tell: Tell, add: Add): void {
    for (const seen of this.#see()) tell(seen, (labels, value) => add({ client: seen.client, ...labels }, value));
  }

  #configuration<T extends string>(name: string, help: string, labelNames: T[]): MetricConfiguration<T> {
    // Registered once all are made.
    return { name, help, labelNames, registers: [] };
  }

  #counter(name: string, help: string, labelNames: string[], tell: Tell): Named {
    const told = (add: Add): void => this.#tell(tell, add);
    const counter = new Counter({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      collect() {
        this.reset();
        told((labels, value) => this.inc(labels, value));
      },
    });
    return [name, counter];
  }

  #gauge(name: string, { help, labelNames, aggregator }: GaugeKind, tell: Tell): Named {
    const told = (add: Add): void => this.#tell(tell, add);
    const gauge = new Gauge({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      aggregator,
      collect() {
        this.reset();
        told((labels, value) => this.set(labels, value));
      },
    });
    return [name, gauge];
  }

  #histogram(name: string, help: string, of: (stats: Stats) => Histogram): Named {
    const values = (): HistogramValue[] => this.#see().flatMap(({ client, stats }) => valuesOf(name, client, of(stats)));
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
      this.#histogram('zklock_wait_seconds', 'How long the acquisitions took, from the call to the grant.', ({ wait }) => wait),
      this.#histogram('zklock_hold_seconds', 'How long the holds that have ended lasted.', ({ hold }) => hold),
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
      // Without any there is a zero: no series at all would mean that nobody was asked.
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

/** As Prometheus wants it: each bound, the whole, and the sum, all in seconds. */
function valuesOf(name: string, client: string, { buckets, count, sum }: Histogram): HistogramValue[] {
  const bucket = (le: number | string, value: number): HistogramValue => ({ metricName: `${name}_bucket`, labels: { client, le }, value });
  return [
    ...buckets.map(([bound, count]) => bucket(bound / 1000, count)),
    bucket('+Inf', count),
    { metricName: `${name}_sum`, labels: { client }, value: sum / 1000 },
    { metricName: `${name}_count`, labels: { client }, value: count },
  ];
}

/** A histogram that somebody else has counted: `prom-client` has only such as it fills itself. */
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
    // `prom-client` declares an enumeration here, and has text.
    const told: unknown = { name, help, type: 'histogram', aggregator: 'sum', values: this.#values() };
    return told as Awaited<ReturnType<PrometheusHistogram<'client'>['get']>>;
  }

  /** What a registry asks for when it writes text; the inherited one would tell of buckets that nobody fills. */
  getForPromString(): ReturnType<PrometheusHistogram<'client'>['get']> {
    return this.get();
  }
}
