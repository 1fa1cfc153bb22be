"""`zklock.aio.MultiLock`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from zklock import _zklock
from zklock.aio._acquirable import Acquirable
from zklock.aio._lease import Leases
from zklock.aio._lock import Lock, ReadWriteLock


@final
class MultiLock(Acquirable[Leases]):
    """Several locks that are acquired together: all, or none. See `zklock.MultiLock` for the details.

    >>> async with aio.MultiLock([lock, catalogue.write_lock]) as leases:
    ...     len(leases)
    2
    """

    __slots__ = ("_locks", "_members")

    def __init__(self, locks: Iterable[Lock]) -> None:
        if not isinstance(locks, Iterable):
            raise TypeError(f"locks must be a list of locks of zklock.aio, not {type(locks).__qualname__}")
        self._members = tuple(locks)
        self._locks = _zklock.MultiLock(map(_inner, self._members))
        super().__init__(self._locks, Leases)

    @property
    def paths(self) -> list[str]:
        """The paths of the locks, in the order of acquisition."""
        return self._locks.paths

    @property
    def leases(self) -> Leases | None:
        """The calling task's newest unreleased leases of this object, or None."""
        return self._newest()

    def __reduce__(self) -> tuple[Any, ...]:
        return MultiLock, (self._members,)


def _inner(lock: Lock) -> _zklock.Lock:
    if isinstance(lock, ReadWriteLock):
        raise TypeError("locks: a ReadWriteLock is two locks; pass its read_lock or its write_lock")
    if not isinstance(lock, Lock):
        raise TypeError(f"locks must be locks of zklock.aio, not {type(lock).__qualname__}")
    return lock._lock
