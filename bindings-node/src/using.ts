/** Runs a function while locks are held, and releases them when it ends. */

import { lossToThrow, type NativeLoss } from '../native';

import { checkFunction } from './check';
import { LockLostError, withReason } from './errors';
import { type Lease, nativeLeases } from './lease';
import type { Leases } from './leases';
import { runInScope } from './scope';

export type Body<Held, T> = (held: Held) => T | PromiseLike<T>;

/** The arguments of every `using()`. */
export type UsingArguments<Options, Held, T> = [body: Body<Held, T>] | [options: Options, body: Body<Held, T>];

/** Whether a lock may be entered again inside the body, by its lease. */
type Enters = (lease: Lease, index: number) => boolean;

function partsOf<Options, Held, T>(args: UsingArguments<Options, Held, T>): [Options | undefined, Body<Held, T>] {
  const [options, body] = args.length === 1 ? [undefined, args[0]] : args;
  checkFunction('body', body);
  return [options, body];
}

/** Acquires, runs the body, and releases. */
export async function using<Options, Held extends Lease | Leases, T>(
  args: UsingArguments<Options, Held, T>,
  acquire: (options?: Options) => Promise<Held>,
  enters: Enters,
): Promise<T> {
  const [options, body] = partsOf(args);
  return runHeld(await acquire(options), body, enters);
}

/** Tries to acquire; if that succeeds, runs the body, and releases. Otherwise resolves with `null`. */
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
 * Runs the body and releases. Inside the body, the locks of the leases that `enters` selects may be entered again.
 * Rejects with a loss that happened meanwhile, caused by what the body threw.
 */
async function runHeld<Held extends Lease | Leases, T>(held: Held, body: Body<Held, T>, enters: Enters): Promise<T> {
  const leases: Lease[] = [held].flat();
  let run = async (): Promise<T> => body(held);
  for (const lease of leases.filter(enters)) {
    const inner = run;
    run = () => runInScope(lease, inner);
  }
  const [end] = await Promise.allSettled([run()]);
  const failed = end.status === 'rejected';
  // Ends as the body does, or with a loss that the body does not tell of. A term that ends while the release waits is no
  // loss; that somebody had deleted the node is one, and only the release finds out.
  const findLoss = (): NativeLoss | null =>
    lossToThrow(nativeLeases(leases), failed ? end.reason instanceof LockLostError : undefined);
  const noticed = findLoss();
  await held[Symbol.asyncDispose]();
  const loss = noticed ?? findLoss();
  if (loss !== null) {
    const error = withReason(new LockLostError(loss.message), loss.reason);
    throw Object.assign(error, failed && { cause: end.reason as unknown });
  }
  if (failed) throw end.reason;
  return end.value;
}
