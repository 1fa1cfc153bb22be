/**
 * Spans and metrics for OpenTelemetry, through the package `@opentelemetry/api`, which the program installs.
 *
 * Programs that do not import this module have no overhead. In the examples, `client` is a connected client, and
 * `mutex` is a free mutex of this client at `/locks/report`.
 *
 * @module zklock/opentelemetry
 */

import { type Attributes, type BatchObservableCallback, type Meter, type MeterProvider, metrics, type TracerProvider } from '@opentelemetry/api';

import { clientInternals } from '../client';
import { type Clients, type Count, counted, COUNTS, HELP, named, oldest, type PathLabel, STATES } from '../exporters';
import type { HoldReport, WaitReport } from '../health';
import type { Lease } from '../lease';
import { type AcquireOptions, Lock } from '../lock';
import { callTraced } from '../trace-hook';
import type { Body } from '../using';
import { checkFunction, checkInstance, checkObject, checkOptions } from '../validate';
import { NAME, Spans, VERSION } from './spans';

export type { Clients, PathLabel } from '../exporters';

/** Options of {@link observe}. */
export interface MetricsOptions {
  /**
   * Returns the value of the attribute `path` for a lock's path, for waiters and holders. Return few different values:
   * each value that has occurred is kept while the client is observed, and is exported as 0 once its count drops to 0.
   * Default: there is no such attribute.
   */
  path?: PathLabel | undefined;
  /** The provider of the meter. Default: the global provider. */
  meterProvider?: MeterProvider | undefined;
}

/** Options of {@link instrument}. */
export interface TracingOptions {
  /** The provider of the tracer. Default: the global provider. */
  tracerProvider?: TracerProvider | undefined;
}

/** Options of {@link traced}: how to acquire, and the provider of the tracer. */
export type TracedOptions = AcquireOptions & TracingOptions;

const observeChecks = { path: checkFunction, meterProvider: checkObject };
const instrumentChecks = { tracerProvider: checkObject };

/**
 * Exports the statistics and the health of one or more named clients as metrics.
 *
 * Counters: `zklock.acquisitions`, `zklock.contended`, `zklock.busy`, `zklock.timeouts`, `zklock.sessions`,
 * `zklock.reconnections`, `zklock.losses` by `reason`, and `zklock.requests` by `kind`. Gauges: `zklock.waiters` and
 * `zklock.holders` by `mode`, `zklock.state` by `state` (1 for the client's current state), `zklock.responsive`, and in
 * seconds `zklock.term.remaining`, `zklock.oldest.wait` and `zklock.oldest.hold`. All have the attribute `client`.
 *
 * @param clients a client, or several clients by name.
 * @returns a function that ends the observation.
 *
 * @example
 * const stop = observe({ reports: client });
 * stop();
 */
export function observe(clients: Clients, options: MetricsOptions = {}): () => void {
  checkOptions<MetricsOptions>(options, observeChecks);
  const { path, meterProvider = metrics.getMeterProvider() } = options;
  const all = named(clients).map(([name, client]) => ({ name, client, waiters: new Kinds(), holders: new Kinds() }));
  const meter = meterProvider.getMeter(NAME, VERSION);
  const instruments = instrumentsOf(meter);
  const read: BatchObservableCallback = (result) => {
    for (const { name, client, ...kinds } of all) {
      const { lossesByReason, requests, ...counts } = client.stats();
      const { waits, holds, state: current, responsive, remaining } = client.health();
      const report = (instrument: keyof typeof instruments, value: number, attributes: Attributes = {}): void =>
        result.observe(instruments[instrument], value, { client: name, ...attributes });
      for (const count of Object.keys(COUNTS) as Count[]) report(count, counts[count]);
      for (const [reason, lost] of Object.entries(lossesByReason)) report('losses', lost, { reason });
      for (const [kind, sent] of Object.entries(requests)) report('requests', sent, { kind });
      for (const state of STATES) report('state', Number(state === current), { state });
      report('responsive', Number(responsive));
      report('remaining', remaining / 1000);
      report('oldestWait', oldest(waits) / 1000);
      report('oldestHold', oldest(holds) / 1000);
      for (const [attributes, count] of kinds.waiters.count(waits, path)) report('waiters', count, attributes);
      for (const [attributes, count] of kinds.holders.count(holds, path)) report('holders', count, attributes);
    }
  };
  const observed = Object.values(instruments);
  meter.addBatchObservableCallback(read, observed);
  return () => meter.removeBatchObservableCallback(read, observed);
}

/**
 * Counts by attributes. A gauge keeps its last reported value, so a count that has dropped to 0 must be reported too.
 */
class Kinds {
  readonly #known = new Map<string, Attributes>();

  count(reports: readonly (WaitReport | HoldReport)[], label?: PathLabel): [Attributes, number][] {
    const now = new Map<string, number>();
    for (const { key, mode, path, count } of counted(reports, (one) => label?.(one))) {
      now.set(key, count);
      this.#known.set(key, path === undefined ? { mode } : { mode, path });
    }
    return [...this.#known].map(([key, attributes]) => [attributes, now.get(key) ?? 0]);
  }
}

function instrumentsOf(meter: Meter) {
  const counter = (name: string, description: string) => meter.createObservableCounter(`zklock.${name}`, { description });
  const gauge = (name: string, description: string, unit = '') => meter.createObservableGauge(`zklock.${name}`, { description, unit });
  const counts = Object.entries(COUNTS).map(([name, text]) => [name, counter(name, text)]);
  return {
    ...(Object.fromEntries(counts) as Record<Count, ReturnType<typeof counter>>),
    losses: counter('losses', HELP.losses),
    requests: counter('requests', HELP.requests),
    waiters: gauge('waiters', HELP.waiters),
    holders: gauge('holders', HELP.holders),
    state: gauge('state', HELP.state),
    responsive: gauge('responsive', HELP.responsive),
    remaining: gauge('term.remaining', HELP.term, 's'),
    oldestWait: gauge('oldest.wait', HELP.oldestWait, 's'),
    oldestHold: gauge('oldest.hold', HELP.oldestHold, 's'),
  };
}

/**
 * Runs `body` while holding a lock, as `lock.using()` does, with one span for the wait and one for the hold.
 *
 * Both are children of the current span, and the body's spans are children of the hold. Both have the attribute
 * `zklock.path`, and once the lock is granted also `zklock.mode`, `zklock.node` and `zklock.fencing_token` (in decimal
 * digits).
 *
 * The attribute `zklock.outcome` of the wait is `acquired`, `timeout`, `busy` (for an attempt that does not wait) or
 * the name of an error. For the hold it is `released` or `lost`; a lost hold also has `zklock.lost_reason`. The span of
 * a hold ends with the release or with the loss.
 *
 * @throws the same errors as `lock.using()`.
 *
 * @example
 * const token = await traced(mutex, { timeout: 5000 }, (lease) => lease.fencingToken);
 * console.log(typeof token); // bigint
 */
export function traced<T>(lock: Lock, body: Body<Lease, T>): Promise<T>;
export function traced<T>(lock: Lock, options: TracedOptions, body: Body<Lease, T>): Promise<T>;
export async function traced<T>(
  lock: Lock,
  ...args: [body: Body<Lease, T>] | [options: TracedOptions, body: Body<Lease, T>]
): Promise<T> {
  checkInstance('lock', lock, Lock, 'Lock');
  const [given, body] = args.length === 1 ? [{}, args[0]] : args;
  checkObject('options', given);
  const { tracerProvider, ...options } = given;
  if (tracerProvider !== undefined) checkObject('tracerProvider', tracerProvider);
  return callTraced(new Spans(tracerProvider), () => lock.using(options, body));
}

/**
 * Traces all holds of one or more clients, whichever method acquires them. Each wait and each hold is a span, as with
 * {@link traced}. A hold that runs a body, through `using()` and similar methods, is the parent of the body's spans.
 * For other holds, the tracer cannot know which code runs under them.
 *
 * A re-entry begins no hold and has no spans. A `MultiLock` that is acquired while one of its locks is held, through
 * `within` or inside a scope, has no spans either, not even for the locks that it newly acquires. If `once()` finds its
 * slot already recorded, its wait has the outcome `recorded`. A call through `traced()` is not traced twice.
 *
 * @param clients a client, or several clients by name.
 * @returns a function that ends the tracing.
 *
 * @example
 * const stop = instrument(client);
 * await mutex.using(() => 'traced');
 * stop();
 */
export function instrument(clients: Clients, options: TracingOptions = {}): () => void {
  const all = named(clients).map(([, client]) => clientInternals(client));
  checkOptions<TracingOptions>(options, instrumentChecks);
  const tracing = new Spans(options.tracerProvider);
  for (const internals of all) internals.tracing = tracing;
  return () => {
    for (const internals of all) if (internals.tracing === tracing) internals.tracing = undefined;
  };
}
