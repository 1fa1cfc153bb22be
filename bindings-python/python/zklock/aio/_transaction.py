"""`zklock.aio.Transaction`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Self, final

from zklock import _zklock
from zklock.aio._tasks import outcome


@final
class Transaction:
    """Writes to ZooKeeper that the servers execute only while a lock is held. See `zklock.Transaction`.

    >>> async with lock as lease:
    ...     writes = lease.transaction().create("/report", b"draft")
    ...     await writes.set_data("/report", b"done").commit()
    """

    __slots__ = ("_transaction",)

    def __init__(self, transaction: _zklock.Transaction) -> None:
        self._transaction = transaction

    def create(self, path: str, data: bytes = b"") -> Self:
        """Create a node.

        >>> async with lock as lease:
        ...     await lease.transaction().create("/report", b"draft").commit()
        """
        self._transaction.create(path, data)
        return self

    def set_data(self, path: str, data: bytes, version: int | None = None) -> Self:
        """Write a node's data if its version matches. None matches any version.

        >>> async with lock as lease:
        ...     await lease.transaction().set_data("/state", b"done", 0).commit()
        """
        self._transaction.set_data(path, data, version)
        return self

    def delete(self, path: str, version: int | None = None) -> Self:
        """Delete a node if its version matches. None matches any version.

        >>> async with lock as lease:
        ...     await lease.transaction().delete("/state").commit()
        """
        self._transaction.delete(path, version)
        return self

    def check(self, path: str, version: int) -> Self:
        """Make the whole transaction fail unless a node has this version.

        >>> async with lock as lease:
        ...     await lease.transaction().check("/state", 0).create("/report").commit()
        """
        self._transaction.check(path, version)
        return self

    def commit(self) -> Coroutine[Any, Any, None]:
        """Execute all operations, or none. See `zklock.Transaction.commit` for the exceptions.

        >>> async with lock as lease:
        ...     await lease.transaction().create("/report", b"draft").commit()

        If the call is cancelled, the operations may or may not have been executed.
        """
        return outcome(_zklock.start_commit(self._transaction))
