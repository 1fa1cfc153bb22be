"""`zklock.aio.ReadWriteLock`."""

from __future__ import annotations

from typing import Literal, final

from zklock import _zklock
from zklock.aio._client import Client, source
from zklock.aio._lock import Lock
from zklock.aio._tasks import represent


@final
class ReadWriteLock:
    """A fair, reentrant read/write lock. See `zklock.ReadWriteLock`, which says more.

    >>> catalogue = aio.ReadWriteLock(client, "/locks/catalogue")
    >>> async with catalogue.read_lock:
    ...     print("reading, with others")
    reading, with others

    A task that holds the write lock may take the read lock as well, and keeps it when it releases the write
    lock. The other way round is refused with `UpgradeRefused`.
    """

    __slots__ = ("__weakref__", "_lock", "_read_lock", "_write_lock")

    def __init__(
        self,
        client: Client | str,
        path: str,
        *,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
    ) -> None:
        self._lock = _zklock.ReadWriteLock(source(client), path, label=label, naming=naming)
        self._read_lock = Lock(self._lock.read_lock)
        self._write_lock = Lock(self._lock.write_lock)

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def read_lock(self) -> Lock:
        """The half that is held together with other readers."""
        return self._read_lock

    @property
    def write_lock(self) -> Lock:
        """The half that is held alone."""
        return self._write_lock

    def __repr__(self) -> str:
        return represent(self._lock)
