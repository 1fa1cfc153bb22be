/** Runs a function while locks are held, and releases them when it ends. */

import { checkFunction } from './check';
import { LockLostError } from './errors';
import { type Lease, leaseInternals } from './lease';
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
  try {
    return await unlessLost(leases, run);
  } finally {
    await held[Symbol.asyncDispose]();
  }
}

/** Ends as the body does, or with a loss that the body does not tell of. */
async function unlessLost<T>(leases: readonly Lease[], run: () => Promise<T>): Promise<T> {
  const [end] = await Promise.allSettled([run()]);
  const failed = end.status === 'rejected';
  if (!failed || !(end.reason instanceof LockLostError)) {
    const loss = leases.map((lease) => leaseInternals(lease).loss()).find(Boolean);
    if (loss !== undefined) throw failed ? Object.assign(loss, { cause: end.reason as unknown }) : loss;
  }
  if (failed) throw end.reason;
  return end.value;
}
