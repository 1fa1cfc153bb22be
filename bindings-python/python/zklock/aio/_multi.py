"""`zklock.aio.MultiLock`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from zklock import _zklock
from zklock.aio._acquirable import Acquirable
from zklock.aio._leases import Leases
from zklock.aio._lock import Lock
from zklock.aio._tasks import outcome, represent


@final
class MultiLock(Acquirable[Leases]):
    """Several locks taken as one: all, or none. See `zklock.MultiLock`, which says more.

    >>> async with aio.MultiLock([lock, catalogue.write_lock]) as leases:
    ...     len(leases)
    2
    """

    __slots__ = ("_lock", "_members")

    def __init__(self, locks: Iterable[Lock]) -> None:
        super().__init__(reentrant=True)
        self._members = [_inner(lock) for lock in locks]
        self._lock = _zklock.MultiLock(self._members)

    @property
    def paths(self) -> list[str]:
        """The locks' paths, in the order in which they are taken."""
        return self._lock.paths

    @property
    def leases(self) -> Leases | None:
        """The calling task's newest leases of this object that have not been released, or None."""
        return self._newest()

    def __repr__(self) -> str:
        return represent(self._lock)

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> Leases:
        return Leases(await outcome(_zklock.start_acquire_all(self._lock, owner, patience)), owner)

    def _check_owned(self) -> bool:
        return all(_zklock.owned_by(member, self._caller()) for member in self._members)


def _inner(lock: Lock) -> _zklock.Lock:
    if not isinstance(lock, Lock):
        raise TypeError(f"locks must be locks of zklock.aio, not {type(lock).__qualname__}")
    return lock._lock
