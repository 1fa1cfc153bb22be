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

/**
 * Acquires, runs the body, and releases. Inside the body, the locks of the leases that `enters` selects may be entered
 * again. Rejects with a loss that happened meanwhile, caused by what the body threw.
 */
export async function using<Options, Held extends Lease | Leases, T>(
  args: UsingArguments<Options, Held, T>,
  acquire: (options?: Options) => Promise<Held>,
  enters: (lease: Lease, index: number) => boolean,
): Promise<T> {
  const [options, body] = args.length === 1 ? [undefined, args[0]] : args;
  checkFunction('body', body);
  const held = await acquire(options);
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
