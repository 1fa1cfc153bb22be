// One build for both module systems: were there two, `instanceof` and the scopes of `using` would tell them apart.
import zklock from './dist/index.js';

export const {
  AuthFailedError,
  BadArgumentError,
  Client,
  ClientClosedError,
  ConnectionFailedError,
  ForkedError,
  Lease,
  Leases,
  Lock,
  LockLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  NotHeldError,
  PermitsMismatchError,
  ReadWriteLock,
  Semaphore,
  SequenceExhaustedError,
  TransactionFailedError,
  UpgradeRefusedError,
  ZkLockError,
  off,
  on,
} = zklock;
