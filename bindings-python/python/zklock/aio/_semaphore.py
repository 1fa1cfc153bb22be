"""`zklock.aio.Semaphore`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, final

from zklock import _zklock
from zklock.aio._client import Client, source
from zklock.aio._lease import Leases
from zklock.aio._lock import Lock
from zklock.aio._tasks import outcome


@final
class Semaphore(Lock):
    """A fair semaphore: a fixed number of permits can be held at the same time. See `zklock.Semaphore`.

    >>> async with aio.Semaphore(client, "/locks/upstream", 5):
    ...     print("one of five")
    one of five

    Permits have no owner: every acquire takes another one, and `release()` gives back the newest that was
    acquired through this object with `acquire()`, whoever calls it.
    """

    __slots__ = ("_semaphore",)

    def __init__(
        self,
        client: Client | str,
        path: str,
        permits: int | None = None,
        *,
        shared_count: str | None = None,
        label: str | None = None,
        max_hold: float | None = None,
    ) -> None:
        self._semaphore = _zklock.Semaphore(
            source(client), path, permits, shared_count=shared_count, label=label, max_hold=max_hold
        )
        super().__init__(self._semaphore, reentrant=False)

    @property
    def permits(self) -> int | None:
        """The number of permits, or None if it is read from a node."""
        return self._semaphore.permits

    @property
    def shared_count(self) -> str | None:
        """The node from which the number of permits is read, or None if the number is fixed."""
        return self._semaphore.shared_count

    def acquire_many(
        self, count: int, blocking: bool = True, timeout: float | None = -1
    ) -> Coroutine[Any, Any, Leases]:
        """Acquire `count` permits, all or none, and return their leases: a context manager, too.

        >>> async with await semaphore.acquire_many(3, timeout=10) as leases:
        ...     leases[2].state
        'held'

        Arguments and exceptions are those of `zklock.Semaphore.acquire_many`.
        """
        return self._acquire_many(count, _zklock.Patience(blocking, timeout))

    async def _acquire_many(self, count: int, patience: _zklock.Patience) -> Leases:
        return Leases(await outcome(_zklock.start_acquire_many(self._semaphore, count, patience)))
