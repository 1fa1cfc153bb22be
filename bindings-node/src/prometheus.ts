/**
 * Metrics of clients for Prometheus, in a registry of the package `prom-client`, which the program installs.
 *
 * Everything is read when Prometheus scrapes, and costs nothing before that. In the examples, `client` is a connected
 * client, and `register` is that of `prom-client`.
 *
 * @packageDocumentation
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

import { checkIterable, checkOptions } from './check';
import type { Client } from './client';
import type { Health, HoldReport, WaitReport } from './health';
import { checkPathLabel, type Clients, type Count, counted, COUNTS, named, oldest, type PathLabel, STATES } from './observed';
import { showAs } from './show';
import type { Histogram, Stats } from './stats';

export type { Clients, PathLabel } from './observed';

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

const checks = { path: checkPathLabel, registers: checkIterable };

/** A client at one moment. */
interface Seen {
  readonly client: string;
  readonly stats: Stats;
  readonly health: Health;
}

type Add = (labels: Record<string, string>, value: number) => void;
type Tell = (seen: Seen, add: Add) => void;

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
  readonly #registers: Registries;
  readonly #metrics = new Map<string, Metric>();
  #seen: readonly Seen[] | undefined;

  /**
   * @param clients a client, or several by their names.
   * @throws {Error} of `prom-client` if a registry already has a collector.
   */
  constructor(clients: Clients, options: CollectorOptions = {}) {
    this.#clients = named(clients);
    checkOptions<CollectorOptions>(options, checks);
    this.#path = options.path ?? (() => '');
    this.#registers = options.registers ?? [register];
    this.#count();
    this.#measure();
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
    for (const registry of this.#registers) {
      for (const [name, metric] of this.#metrics) {
        if (registry.getSingleMetric(name) === metric) registry.removeSingleMetric(name);
      }
    }
  }

  /** All metrics of a scrape are of one moment: a registry asks each of them before anything else runs. */
  #see(): readonly Seen[] {
    if (this.#seen === undefined) {
      this.#seen = this.#clients.map(([name, client]) => ({ client: name, stats: client.stats(), health: client.health() }));
      queueMicrotask(() => (this.#seen = undefined));
    }
    return this.#seen;
  }

  #tell(tell: Tell, add: Add): void {
    for (const seen of this.#see()) tell(seen, (labels, value) => add({ client: seen.client, ...labels }, value));
  }

  #configuration<T extends string>(name: string, help: string, labelNames: T[]): MetricConfiguration<T> {
    return { name, help, labelNames, registers: this.#registers };
  }

  #counter(name: string, help: string, labelNames: string[], tell: Tell): void {
    const told = (add: Add): void => this.#tell(tell, add);
    const counter = new Counter({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      collect() {
        this.reset();
        told((labels, value) => this.inc(labels, value));
      },
    });
    this.#metrics.set(name, counter);
  }

  #gauge(name: string, { help, labelNames, aggregator }: GaugeKind, tell: Tell): void {
    const told = (add: Add): void => this.#tell(tell, add);
    const gauge = new Gauge({
      ...this.#configuration(name, help, ['client', ...labelNames]),
      aggregator,
      collect() {
        this.reset();
        told((labels, value) => this.set(labels, value));
      },
    });
    this.#metrics.set(name, gauge);
  }

  #histogram(name: string, help: string, of: (stats: Stats) => Histogram): void {
    const values = (): HistogramValue[] => this.#see().flatMap(({ client, stats }) => valuesOf(name, client, of(stats)));
    this.#metrics.set(name, new Counted(this.#configuration(name, help, ['client']), values));
  }

  #count(): void {
    for (const [name, help] of Object.entries(COUNTS) as [Count, string][]) {
      this.#counter(`zklock_${name}_total`, help, [], ({ stats }, add) => add({}, stats[name]));
    }
    this.#counter('zklock_losses_total', 'Holds that were lost, except by closing the client.', ['reason'], ({ stats }, add) => {
      for (const [reason, count] of Object.entries(stats.lossesByReason)) add({ reason }, count);
    });
    this.#counter('zklock_requests_total', 'Requests for locks.', ['kind'], ({ stats }, add) => {
      for (const [kind, count] of Object.entries(stats.requests)) add({ kind }, count);
    });
    const wait = 'How long the acquisitions took, from the call to the grant.';
    this.#histogram('zklock_wait_seconds', wait, (stats) => stats.wait);
    this.#histogram('zklock_hold_seconds', 'How long the holds that have ended lasted.', (stats) => stats.hold);
  }

  #measure(): void {
    const state = '1 for the state that the client is in, 0 for the others.';
    this.#gauge('zklock_state', { help: state, labelNames: ['state'], aggregator: 'sum' }, ({ health }, add) => {
      for (const one of STATES) add({ state: one }, Number(one === health.state));
    });
    const seconds = (name: string, help: string, aggregator: Aggregator, ms: (health: Health) => number): void =>
      this.#gauge(name, { help, labelNames: [], aggregator }, ({ health }, add) => add({}, ms(health) / 1000));
    const term = "What is left of the session's term, after which its leases are lost; 0 if it does not run.";
    seconds('zklock_term_remaining_seconds', term, 'min', ({ remaining }) => remaining);
    const responsive = "1 if the library's thread could be looked at, else 0.";
    this.#gauge('zklock_responsive', { help: responsive, labelNames: [], aggregator: 'min' }, ({ health }, add) =>
      add({}, Number(health.responsive)),
    );
    const oldestWait = 'How long the oldest of the attempts has waited; 0 without any.';
    seconds('zklock_oldest_wait_seconds', oldestWait, 'max', ({ waits }) => oldest(waits));
    const oldestHold = 'How long the oldest of the holds has lasted; 0 without any.';
    seconds('zklock_oldest_hold_seconds', oldestHold, 'max', ({ holds }) => oldest(holds));
    this.#now('zklock_waiters', 'Attempts that wait for a lock now.', ({ waits }) => waits);
    this.#now('zklock_holders', 'Holds now.', ({ holds }) => holds);
  }

  #now(name: string, help: string, of: (health: Health) => readonly (WaitReport | HoldReport)[]): void {
    this.#gauge(name, { help, labelNames: ['mode', 'path'], aggregator: 'sum' }, ({ health }, add) => {
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
