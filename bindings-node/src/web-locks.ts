/** Implements `client.request()` and `client.query()`, in the style of the Web Locks API. */

import { type Client, provideRequests } from './client';
import type { Contender } from './contender';
import { BadArgumentError, LockTimeoutError } from './errors';
import type { Lease } from './lease';
import type { Lock } from './lock';
import { ReadWriteLock } from './rwlock';
import type { LockInfo, LockSnapshot, RequestOptions } from './types';
import type { Body } from './using';
import { checkBoolean, checkFunction, checkOptions, checkSignal, checkString } from './validate';

type Arguments<T> = [callback: Body<Lease, T>] | [options: RequestOptions, callback: Body<Lease | null, T>];

const checks = { mode: checkString, ifAvailable: checkBoolean, signal: checkSignal, steal: checkBoolean };

function lockFor(client: Client, path: string, mode: string): Lock {
  const { readLock, writeLock } = new ReadWriteLock(client, path);
  if (mode === 'shared') return readLock;
  if (mode === 'exclusive') return writeLock;
  throw new BadArgumentError(`mode: must be 'exclusive' or 'shared', but is ${JSON.stringify(mode)}`);
}

async function request<T>(client: Client, path: string, ...args: Arguments<T>): Promise<T> {
  // The callback is the last argument in both forms.
  const [options, callback] = args.length === 1 ? [{}, args[0] as Body<Lease | null, T>] : args;
  checkFunction('callback', callback);
  checkOptions<RequestOptions>(options, checks);
  const { mode = 'exclusive', ifAvailable = false, signal, steal } = options as Omit<RequestOptions, 'steal'> & { steal?: boolean };
  if (steal === true) {
    throw new BadArgumentError('steal: not supported, because a holder cannot be stopped; breakLock() takes a lock away');
  }
  const lock = lockFor(client, path, mode);
  if (!ifAvailable) return lock.using({ signal }, callback);
  let called = false as boolean;
  try {
    return await lock.using({ timeout: 0, signal }, (lease) => {
      called = true;
      return callback(lease);
    });
  } catch (error) {
    if (called || !(error instanceof LockTimeoutError)) throw error;
    return callback(null);
  }
}

/** Returns the number of holders: the first contender, and if it is a reader, all readers up to the next writer. */
function countHolders(queue: readonly Contender[]): number {
  const [first] = queue;
  if (first === undefined) return 0;
  // While a writer downgrades to a reader, it has two nodes for a moment. Both have the same sequence number.
  const number = first.node.slice(-10);
  const end = queue.findIndex(({ node, reader }, index) => index > 0 && !(reader && (first.reader || node.endsWith(number))));
  return end < 0 ? queue.length : end;
}

async function query(client: Client, path: string): Promise<LockSnapshot> {
  const queue = await lockFor(client, path, 'shared').contenders();
  const infos = queue.map(({ reader, sessionId }): LockInfo => ({
    name: path,
    mode: reader ? 'shared' : 'exclusive',
    clientId: String(sessionId),
  }));
  const holders = countHolders(queue);
  return { held: infos.slice(0, holders), pending: infos.slice(holders) };
}

provideRequests({ request, query });
