"""zklock's locks for asyncio.

>>> from zklock import aio
>>> async with aio.Mutex("zk1:2181,zk2:2181", "/locks/report") as lease:
...     await write_report(lease.fencing_token)

The *owner* of a lock is the task that calls `acquire()`. Only the owner can re-enter the lock. The caller is
the owner even if `asyncio.wait_for` or `asyncio.create_task` runs the acquire in another task. A child task
is a different owner, and waits for its parent's lock like any other task. Threads are different owners too.

If a waiting task is cancelled, it leaves the queue. If a lease arrives at the same moment, it is released.
"""

from zklock.aio._acquirable import Acquirable, Hold
from zklock.aio._client import Client
from zklock.aio._election import Election, Leadership
from zklock.aio._lease import Lease, Leases
from zklock.aio._lock import Lock, Mutex, ReadWriteLock
from zklock.aio._multi import MultiLock
from zklock.aio._semaphore import Semaphore
from zklock.aio._transaction import Transaction

# In the order of the reference: the most important classes first.
__all__ = [  # noqa: RUF022
    "Client",
    "Mutex",
    "ReadWriteLock",
    "Semaphore",
    "MultiLock",
    "Election",
    "Lease",
    "Acquirable",
    "Hold",
    "Leadership",
    "Leases",
    "Lock",
    "Transaction",
]

# Tracebacks and documentation show the module from which programs import the classes.
for _name in __all__:
    globals()[_name].__module__ = __name__
