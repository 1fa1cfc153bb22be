"""Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache Curator.

>>> import zklock
>>> with zklock.Mutex("zk1:2181,zk2:2181", "/locks/report") as lease:
...     write_report(lease.fencing_token)

`Client` keeps a session with an ensemble. `Mutex`, `ReadWriteLock` and `Semaphore` are locks at a path.
`MultiLock` acquires several of them together. An acquire returns a `Lease`. `Election` elects a leader.
`zklock.aio` has the same classes for asyncio. `zklock.testing` has a server for tests.
"""

import atexit as _atexit
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

# Import every module now that needs no optional package, instead of when it is first used. If another thread
# imported a module while the process forks, that module would stay locked in the child, and a child that uses
# it would wait forever.
from zklock import _asyncio_misuse as _asyncio_misuse
from zklock import _callbacks as _callbacks
from zklock import _callers as _callers
from zklock import _decorators as _decorators
from zklock import _log as _log
from zklock import _multiprocessing as _multiprocessing
from zklock import _once as _once
from zklock import _pickle as _pickle
from zklock import _rounds as _rounds
from zklock import _trio as _trio
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

# Sorted as in the reference documentation: the most important classes first, the errors last.
__all__ = [  # noqa: RUF022
    "Client",
    "Mutex",
    "ReadWriteLock",
    "Semaphore",
    "MultiLock",
    "Election",
    "Lease",
    "Acquirable",
    "Candidate",
    "ClientOptions",
    "Contender",
    "Deadlock",
    "Health",
    "Histogram",
    "Hold",
    "HoldReport",
    "Leadership",
    "Leases",
    "Lock",
    "NodeData",
    "Notice",
    "OwnerInfo",
    "OwnerReport",
    "ServerReport",
    "Stats",
    "Tls",
    "Transaction",
    "WaitReport",
    "__version__",
    "close_on_signals",
    "dump",
    "dump_on",
    "AuthFailed",
    "BadArgument",
    "ClientClosed",
    "ConnectionFailed",
    "Error",
    "Forked",
    "LockLost",
    "LockTimeout",
    "NotHeld",
    "PermitsMismatch",
    "SequenceExhausted",
    "TransactionFailed",
    "UpgradeRefused",
]

if "gevent._hub_local" in _sys.modules:
    # Import this module now, on one thread. Otherwise several native threads might import it at the same
    # time, when they first wait. In a patched process the import locks are gevent's, and a native thread
    # could wait for such a lock forever.
    from zklock import _gevent as _gevent

# Free the process's locks when the process exits. Otherwise they would stay taken until the session timeout.
_atexit.register(_zklock.shutdown)


def __getattr__(name: str) -> object:
    """Import `zklock.aio` and `zklock.testing` when they are first used.

    The import of asyncio takes longer than the rest of zklock, and a service does not need a test server.
    """
    if name in {"aio", "testing"}:
        import importlib

        return importlib.import_module(f"zklock.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
