/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, on one wire with Apache Curator.
 *
 * All times are in milliseconds.
 *
 * @packageDocumentation
 */

export { Client, type ClientState, type ConnectOptions } from './client';
export {
  AuthFailedError,
  BadArgumentError,
  ClientClosedError,
  ConnectionFailedError,
  ForkedError,
  LockLostError,
  LockTimeoutError,
  NotHeldError,
  PermitsMismatchError,
  SequenceExhaustedError,
  UpgradeRefusedError,
  ZkLockError,
  type ErrorCode,
} from './errors';
export { Lease, type LeaseJson, type LeaseState, type ReleaseOptions } from './lease';
export type { AcquireOptions, Lock, LockOptions, MutexOptions } from './lock';
export { off, on, type LogLevel, type LogListener, type LogOptions, type LogRecord } from './log';
export { Mutex } from './mutex';
export { ReadWriteLock } from './rwlock';
export type { Histogram, Stats } from './stats';
