"""Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache Curator.

>>> import zklock
>>> with zklock.Mutex("zk1:2181,zk2:2181", "/locks/report") as lease:
...     write_report(lease.fencing_token)

`Client` keeps a session with an ensemble; `Mutex`, `ReadWriteLock` and `Semaphore` are locks at a path;
`MultiLock` takes several of them as one; an acquire gives a `Lease`. `Election` elects a leader. `zklock.aio`
has the same classes for asyncio. `zklock.testing` has a server for tests.
"""

import atexit as _atexit
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from zklock import _callbacks as _callbacks
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
    Acquirable,
    Candidate,
    Client,
    ClientOptions,
    Contender,
    Deadlock,
    Election,
    Health,
    Histogram,
    Hold,
    HoldReport,
    Leadership,
    Lease,
    Leases,
    Lock,
    MultiLock,
    Mutex,
    NodeData,
    Notice,
    OwnerInfo,
    OwnerReport,
    ReadWriteLock,
    Semaphore,
    ServerReport,
    Stats,
    Tls,
    Transaction,
    WaitReport,
    __version__,
    close_on_signals,
    dump,
    dump_on,
)

if _TYPE_CHECKING:
    from zklock import aio as aio
    from zklock import testing as testing

__all__ = [
    "Acquirable",
    "AuthFailed",
    "BadArgument",
    "Candidate",
    "Client",
    "ClientClosed",
    "ClientOptions",
    "ConnectionFailed",
    "Contender",
    "Deadlock",
    "Election",
    "Error",
    "Forked",
    "Health",
    "Histogram",
    "Hold",
    "HoldReport",
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
    "OwnerInfo",
    "OwnerReport",
    "PermitsMismatch",
    "ReadWriteLock",
    "Semaphore",
    "SequenceExhausted",
    "ServerReport",
    "Stats",
    "Tls",
    "Transaction",
    "TransactionFailed",
    "UpgradeRefused",
    "WaitReport",
    "__version__",
    "close_on_signals",
    "dump",
    "dump_on",
]

if "gevent._hub_local" in _sys.modules:
    # What the first waits need. Several native threads would import it at once: where the process is patched,
    # the locks of imports are gevent's, and such a thread can wait for one for ever.
    from zklock import _gevent as _gevent
    from zklock import _multiprocessing as _multiprocessing

# Locks that a process leaves behind are then free at once, not only after the session time-out.
_atexit.register(_zklock.shutdown)


def __getattr__(name: str) -> object:
    """`zklock.aio` and `zklock.testing`, imported when they are first used.

    asyncio takes longer to import than everything here, and no service needs a server of its own.
    """
    if name in {"aio", "testing"}:
        import importlib

        return importlib.import_module(f"zklock.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
