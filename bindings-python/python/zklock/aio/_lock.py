"""`zklock.aio.Lock`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from zklock import _zklock
from zklock.aio._acquirable import Acquirable
from zklock.aio._lease import Lease
from zklock.aio._tasks import outcome, represent


class Lock(Acquirable[Lease]):
    """Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.

    >>> async with lock as lease:
    ...     await write_report(lease.fencing_token)

    See `zklock.Lock`, which says more.
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: _zklock.Lock, reentrant: bool = True) -> None:
        super().__init__(reentrant)
        self._lock = lock

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def lease(self) -> Lease | None:
        """The calling task's newest lease of this object that has not been released, or None.

        With `reentrant=False`, and for a semaphore: the object's newest, whoever acquired it.
        """
        return self._newest()

    def owned(self) -> bool:
        """Whether the calling task holds the lock, through this object or another one. Sends nothing.

        >>> async with lock:
        ...     lock.owned()
        True

        With `reentrant=False`, and for a semaphore: whether this object holds it, whoever acquired it.
        """
        owned = self._check_owned()
        return owned if self._reentrant else any(lease._is_held() for lease in self._levels)

    def locked(self) -> Coroutine[Any, Any, bool]:
        """Whether any contender holds the lock or waits for it; for a semaphore, whether no permit is free.

        >>> await lock.locked()
        False

        One read. See `zklock.Lock.locked`.
        """
        return outcome(_zklock.start_locked(self._lock))

    def contenders(self) -> Coroutine[Any, Any, list[_zklock.Contender]]:
        """The contenders for the lock, in queue order. See `zklock.Lock.contenders`.

        >>> async with lock:
        ...     (await lock.contenders())[0].language
        'python'
        """
        return outcome(_zklock.start_contenders(self._lock))

    def __repr__(self) -> str:
        return represent(self._lock)

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> Lease:
        return Lease(await outcome(_zklock.start_acquire(self._lock, owner, patience)), owner)

    def _check_owned(self) -> bool:
        return _zklock.owned_by(self._lock, self._caller())
