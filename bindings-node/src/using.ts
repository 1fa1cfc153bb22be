/** Runs a function while locks are held, and releases the locks when the function ends. */

import { lossToReport, type NativeLoss } from '../addon';

import { run, untilDone } from './bridge';
import { LockLostError, NotHeldError, nullIf, withReason } from './errors';
import { endLease, keepLease, type Lease, leaveScope, nativeLeases, type TracedHold, traceOfLease } from './lease';
import type { Leases } from './leases';
import { beginScopes, callWithin, endScopes, type Scope } from './scope';
import type { LossReason } from './types';
import { checkFunction } from './validate';

export type Body<Held, T> = (held: Held) => T | PromiseLike<T>;

/** The arguments of every `using()`. */
export type UsingArguments<Options, Held, T> = [body: Body<Held, T>] | [options: Options, body: Body<Held, T>];

/** Returns whether the lock of a lease may be re-entered inside the body. */
type Enters = (lease: Lease, index: number) => boolean;

function partsOf<Options, Held, T>(args: UsingArguments<Options, Held, T>): [Options | undefined, Body<Held, T>] {
  const [options, body] = args.length === 1 ? [undefined, args[0]] : args;
  checkFunction('body', body);
  return [options, body];
}

/**
 * Acquires, runs the body, and releases. `again` re-enters immediately if the owner already holds the lock; it is used
 * only if the caller passed no options.
 */
export async function using<Options, Held extends Lease | Leases, T>(
  args: UsingArguments<Options, Held, T>,
  acquire: (options?: Options) => Promise<Held>,
  enters: Enters,
  again?: () => Held | undefined,
): Promise<T> {
  const [options, body] = partsOf(args);
  const held = options === undefined ? again?.() : undefined;
  // Because of the `await`, the body never runs before this function has returned a promise.
  return runHeld(await (held ?? acquire(options)), body, enters);
}

/** Tries to acquire. If that succeeds, runs the body and releases; otherwise resolves with `null`. */
export async function tryUsing<Options, Held extends Lease | Leases, T>(
  args: UsingArguments<Options, Held, T>,
  tryAcquire: (options?: Options) => Promise<Held | null>,
  enters: Enters,
): Promise<T | null> {
  const [options, body] = partsOf(args);
  const held = await tryAcquire(options);
  return held === null ? null : runHeld(held, body, enters);
}

/**
 * Runs the body inside scopes of these leases and returns its outcome. Returns a promise only if the body returned an
 * object or a function, which may be a promise.
 */
function ended<Held, T>(
  held: Held,
  body: Body<Held, T>,
  leases: readonly Lease[],
  enters: Enters,
): PromiseSettledResult<T> | Promise<PromiseSettledResult<T>> {
  const scopes = beginScopes(leases, enters);
  try {
    const value = callWithin(scopes, body, held);
    if ((typeof value === 'object' && value !== null) || typeof value === 'function') {
      leases.forEach(keepLease);
      return settled(value, scopes);
    }
    endScopes(scopes);
    return { status: 'fulfilled', value };
  } catch (reason) {
    endScopes(scopes);
    return { status: 'rejected', reason };
  }
}

async function settled<T>(promise: T | PromiseLike<T>, scopes: readonly Scope[]): Promise<PromiseSettledResult<T>> {
  try {
    return { status: 'fulfilled', value: await promise };
  } catch (reason) {
    return { status: 'rejected', reason };
  } finally {
    endScopes(scopes);
  }
}

/** Releases at the end of a scope. Returns the loss that was already known, or that only the release discovered. */
function release(
  held: Lease | Leases,
  leases: readonly Lease[],
  findLoss: () => NativeLoss | null,
): null | Promise<NativeLoss | null> {
  const [only] = leases;
  const waiting = only !== undefined && leases.length === 1 ? leaveScope(only) : null;
  if (waiting === 0) return null;
  return released(held, waiting, findLoss);
}

async function released(
  held: Lease | Leases,
  waiting: number | null,
  findLoss: () => NativeLoss | null,
): Promise<NativeLoss | null> {
  if (waiting !== null) {
    await run<undefined>(() => waiting, untilDone);
    return findLoss();
  }
  const noticed = findLoss();
  await nullIf(NotHeldError, held.release());
  return noticed ?? findLoss();
}

/** Returns the trace of the hold that began last. The body is reported to it. */
function scopeTrace(leases: readonly Lease[]): TracedHold | undefined {
  const last = leases[leases.length - 1];
  return last && traceOfLease(last);
}

/**
 * Runs the body and releases. Inside the body, the locks of the leases that `enters` selects may be re-entered. If a
 * lock was lost meanwhile, throws the loss, unless the body failed by itself. Returns a plain value instead of a
 * promise if there is nothing to wait for, which is faster.
 */
function runHeld<Held extends Lease | Leases, T>(held: Held, body: Body<Held, T>, enters: Enters): T | Promise<T> {
  const leases: readonly Lease[] = Array.isArray(held) ? held : [held as Lease];
  const traced = scopeTrace(leases);
  const whole: Body<Held, T> = traced === undefined ? body : (held) => traced.run(() => body(held));
  const end = ended(held, whole, leases, enters);
  return end instanceof Promise ? end.then((ended) => leave(held, leases, ended)) : leave(held, leases, end);
}

/**
 * Runs the body of a turn. If it succeeds, `record` records the slot and releases the lease; otherwise the lease is
 * released as at the end of every scope. `enters`: whether the lock may be re-entered inside the body.
 */
export async function usingTurn<T>(lease: Lease, body: Body<Lease, T>, enters: boolean, record: () => Promise<void>): Promise<T> {
  const traced = traceOfLease(lease);
  const whole: Body<Lease, T> = traced === undefined ? body : (lease) => traced.run(() => body(lease));
  const end = await ended(lease, whole, [lease], () => enters);
  if (end.status === 'rejected') return leave(lease, [lease], end);
  try {
    await record();
  } finally {
    endLease(lease);
    traced?.ended(lease.lossReason);
  }
  return end.value;
}

/** An error and its causes. */
function* causesOf(error: unknown): Generator<{ name?: unknown; cause?: unknown }> {
  const seen = new Set<unknown>();
  for (let cause = error; typeof cause === 'object' && cause !== null && !seen.has(cause); cause = 'cause' in cause ? cause.cause : undefined) {
    seen.add(cause);
    yield cause;
  }
}

/**
 * Classifies the error of a body: a loss, an abort that a loss caused (thrown by functions that take `lease.signal`),
 * or any other error.
 */
function kindOf(error: unknown): 'loss' | 'cancelled' | 'error' {
  if (error instanceof LockLostError) return 'loss';
  const [first, ...causes] = causesOf(error);
  return first?.name === 'AbortError' && causes.some((cause) => cause instanceof LockLostError) ? 'cancelled' : 'error';
}

/**
 * Appends the loss to an error's chain of causes. Does nothing if the chain already contains a loss, or if its last
 * error cannot be changed.
 */
function attach(loss: LockLostError, error: unknown): void {
  const causes = [...causesOf(error)];
  const last = causes.at(-1);
  if (last === undefined || causes.some((cause) => cause instanceof LockLostError) || (last.cause ?? undefined) !== undefined) return;
  // Non-enumerable, as the `Error` constructor defines it.
  Reflect.defineProperty(last, 'cause', { value: loss, writable: true, configurable: true });
}

/** Releases, and returns or throws the outcome of the body, or throws a loss that the body did not report. */
function leave<T>(held: Lease | Leases, leases: readonly Lease[], end: PromiseSettledResult<T>): T | Promise<T> {
  const failed = end.status === 'rejected';
  // Report the body's failure to the tracer before the release, which ends the hold's span.
  if (failed) scopeTrace(leases)?.failed(end.reason);
  // The release can discover that another client has deleted the node, so look for a loss after the release. But if the
  // lease only expires while the release waits for a reply, nothing was lost.
  const findLoss = (): NativeLoss | null =>
    lossToReport(nativeLeases(leases), failed ? kindOf(end.reason) : undefined);
  const loss = release(held, leases, findLoss);
  return loss === null ? ending(leases, end, null) : loss.then((loss) => ending(leases, end, loss));
}

function ending<T>(leases: readonly Lease[], end: PromiseSettledResult<T>, loss: NativeLoss | null): T {
  for (const lease of leases) traceOfLease(lease)?.ended(lease.lossReason);
  const failed = end.status === 'rejected';
  if (loss !== null) {
    const error = withReason(new LockLostError(loss.message), loss.reason as LossReason | undefined);
    if (!loss.attached) throw Object.assign(error, failed && { cause: end.reason as unknown });
    if (failed) attach(error, end.reason);
  }
  if (failed) throw end.reason;
  return end.value;
}
