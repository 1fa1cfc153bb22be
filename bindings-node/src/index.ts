/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache Curator.
 *
 * All times are in milliseconds. In the examples, `client` is a connected {@link Client}, `mutex` is a free {@link
 * Mutex} of this client at `/locks/report`, and `lease` is a {@link Lease} of another mutex.
 *
 * @module zklock
 */

// This import must be first. If the native addon is missing, every module fails to load, but only this one reports the
// reason.
import './addon';
// Provides `client.request()` and `client.query()`.
import './web-locks';

export { Client, type CloseOptions, type NodeData } from './client';
export type { EndingSignal } from './close-on-signals';
export type { ClientOptions, ConnectOptions, Credential, Login, ReadyOptions, TlsOptions } from './connect';
export type { Contender, ContenderInfo, OwnerInfo } from './contender';
export { Election, Leadership, type Candidate, type ElectionOptions, type ObserveOptions, type RunOptions } from './election';
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
  TransactionFailedError,
  UpgradeRefusedError,
  ZkLockError,
  type Deadlock,
  type ErrorCode,
  type ServerProblem,
  type TimeoutReason,
  type ServerReport,
} from './errors';
export type { LostListener, StateListener } from './events';
export { dump, dumpOn, type Health, type HoldReport, type OwnerReport, type WaitReport } from './health';
export { Lease, type LeaseJson, type LeaseState, type ReleaseOptions } from './lease';
export { Leases } from './leases';
export { Lock, type AcquireOptions, type LockOptions, type MutexOptions, type SemaphoreOptions, type TryOptions, type WaitOptions } from './lock';
export type { LockMode, LossReason } from './types';
export { off, on, type LogLevel, type LogListener, type LogOptions, type LogRecord } from './log';
export { MultiLock, type AcquireAllOptions, type TryAllOptions } from './multi';
export { Mutex, type OnceOptions } from './mutex';
export { ReadWriteLock } from './rwlock';
export { Semaphore, type SharedCount } from './semaphore';
export type { ClientState } from './types';
export type { Histogram, Stats } from './stats';
export type { Transaction } from './transaction';
export type { LockInfo, LockSnapshot, RequestOptions } from './types';
