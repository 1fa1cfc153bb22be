"""Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache Curator.

>>> import zklock
>>> with zklock.Mutex("zk1:2181,zk2:2181", "/locks/report") as lease:
...     write_report(lease.fencing_token)

`Client` keeps a session with an ensemble; `Mutex`, `ReadWriteLock` and `Semaphore` are locks at a path;
`MultiLock` takes several of them as one; an acquire gives a `Lease`. `Election` elects a leader. `zklock.aio`
has the same classes for asyncio.
"""

import atexit as _atexit

from zklock import _log as _log
from zklock import _zklock
from zklock._errors import (
    AuthFailed,
    BadArgument,
    ClientClosed,
    ConnectionFailed,
    Error,
    Forked,
    LockLost,
    LockTimeout,
    NotHeld,
    PermitsMismatch,
    SequenceExhausted,
    TransactionFailed,
    UpgradeRefused,
)
from zklock._zklock import (
    Candidate,
    Client,
    Contender,
    Election,
    Histogram,
    Leadership,
    Lease,
    Leases,
    Lock,
    MultiLock,
    Mutex,
    NodeData,
    Notice,
    ReadWriteLock,
    Semaphore,
    Stats,
    Tls,
    Transaction,
    __version__,
)

__all__ = [
    "AuthFailed",
    "BadArgument",
    "Candidate",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "Contender",
    "Election",
    "Error",
    "Forked",
    "Histogram",
    "Leadership",
    "Lease",
    "Leases",
    "Lock",
    "LockLost",
    "LockTimeout",
    "MultiLock",
    "Mutex",
    "NodeData",
    "NotHeld",
    "Notice",
    "PermitsMismatch",
    "ReadWriteLock",
    "Semaphore",
    "SequenceExhausted",
    "Stats",
    "Tls",
    "Transaction",
    "TransactionFailed",
    "UpgradeRefused",
    "__version__",
]

# Locks that a process leaves behind are then free at once, not only after the session time-out.
_atexit.register(_zklock.shutdown)
