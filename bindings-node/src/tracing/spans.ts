/** Records attempts and holds as OpenTelemetry spans. */

import { type Attributes, context, type Context, type Span, SpanStatusCode, trace, type Tracer, type TracerProvider } from '@opentelemetry/api';

import { LockTimeoutError, ZkLockError } from '../errors';
import { type Lease, leaseInternals, type TracedHold, traceLease } from '../lease';
import type { Leases } from '../leases';
import type { TraceHook } from '../trace-hook';
import type { LossReason } from '../types';

export const NAME = 'zklock';

// This is not an `import`, because the file is outside the directory of the compiled sources.
// eslint-disable-next-line @typescript-eslint/no-require-imports
export const { version: VERSION } = require('../../package.json') as { version: string };

function attributesOf({ mode, node, fencingToken }: Lease): Attributes {
  return {
    'zklock.mode': mode,
    'zklock.node': node,
    // OpenTelemetry numbers are doubles in JavaScript, which cannot hold the token exactly.
    'zklock.fencing_token': String(fencingToken),
  };
}

/** Returns the error name that all languages share. */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return error instanceof ZkLockError ? error.name.replace(/Error$/, '') : error.name;
}

function failed(span: Span, error: unknown): void {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  span.recordException(error instanceof Error ? error : message);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** Ends the spans of holds whose leases were garbage collected, and thereby released. */
const collected = new FinalizationRegistry<HoldSpan>((hold) => hold.ended(undefined));

/** The span of a hold. Does not refer to the lease. */
class HoldSpan implements TracedHold {
  readonly #span: Span;
  #over = false;

  constructor(span: Span) {
    this.#span = span;
  }

  run<T>(body: () => T): T {
    return context.with(trace.setSpan(context.active(), this.#span), body);
  }

  failed(error: unknown): void {
    if (!this.#over) failed(this.#span, error);
  }

  ended(lossReason: LossReason | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#span.setAttribute('zklock.outcome', lossReason === undefined ? 'released' : 'lost');
    if (lossReason !== undefined) {
      this.#span.setAttribute('zklock.lost_reason', lossReason);
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message: `the lock is lost: ${lossReason}` });
    }
    this.#span.end();
  }
}

/** Reports attempts and holds to a tracer. */
export class Spans implements TraceHook {
  readonly #tracer: Tracer;

  constructor(provider: TracerProvider = trace.getTracerProvider()) {
    this.#tracer = provider.getTracer(NAME, VERSION);
  }

  async wait<Held extends Lease | Leases | null>(paths: readonly string[], tries: boolean, acquire: () => Promise<Held>): Promise<Held> {
    const parent = context.active();
    const waits = paths.map((path) => this.#start('zklock wait', { 'zklock.path': path }, parent));
    let held: Held;
    try {
      held = await acquire();
    } catch (error) {
      const late = error instanceof LockTimeoutError;
      for (const wait of waits) {
        wait.setAttribute('zklock.outcome', late ? (tries ? 'busy' : 'timeout') : nameOf(error));
        // A taken lock is an expected result of a try, not a failure.
        if (!late || !tries) failed(wait, error);
        wait.end();
      }
      throw error;
    }
    const leases: readonly Lease[] = Array.isArray(held) ? held : held === null ? [] : [held as Lease];
    // Matched by index, because a path can occur twice. For several permits, the first lease represents all of them.
    for (const [index, wait] of waits.entries()) {
      const lease = leases[index];
      wait.setAttributes({ ...(lease && attributesOf(lease)), 'zklock.outcome': held === null ? 'recorded' : 'acquired' }).end();
    }
    for (const lease of leases) this.#hold(lease, parent);
    return held;
  }

  #hold(lease: Lease, parent: Context): void {
    const span = this.#start('zklock hold', { 'zklock.path': lease.path, ...attributesOf(lease) }, parent);
    const hold = new HoldSpan(span);
    traceLease(lease, hold);
    collected.register(lease, hold);
    followLoss(lease, hold);
  }

  #start(name: string, attributes: Attributes, parent: Context): Span {
    return this.#tracer.startSpan(name, { attributes }, parent);
  }
}

/**
 * Ends the span when the lease is lost. Does not use `lease.signal`, which would pin the lease. A separate function,
 * because a closure must not capture the lease.
 */
function followLoss(lease: Lease, hold: HoldSpan): void {
  leaseInternals(lease).onLoss((lost) => hold.ended(lost.lossReason));
}
