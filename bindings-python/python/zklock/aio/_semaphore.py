"""`zklock.aio.Semaphore`."""

from __future__ import annotations

from types import TracebackType
from typing import final

from zklock import _zklock
from zklock.aio._awaitables import Answer
from zklock.aio._client import Client, source
from zklock.aio._lease import Leases
from zklock.aio._lock import Lock
from zklock.aio._scope import Scope
from zklock.aio._tasks import outcome, this_task_if_any


@final
class Acquiring(Answer[Leases]):
    """The result of `acquire_many()`: await it, or use it as an async context manager."""

    __slots__ = ("_scope",)

    async def __aenter__(self) -> Leases:
        leases = await self
        self._scope = Scope(leases)
        return leases

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._scope.leave(value)


@final
class Semaphore(Lock):
    """A fair semaphore: a fixed number of permits can be held at the same time. See `zklock.Semaphore`.

    >>> async with aio.Semaphore(client, "/locks/upstream", 5):
    ...     print("one of five")
    one of five

    Permits have no owner: every acquire takes another permit. `release()` returns the newest permit that any
    task acquired through this object with `acquire()`.
    """

    __slots__ = ("_semaphore",)

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        permits: int | None = None,
        *,
        shared_count: str | None = None,
        label: str | None = None,
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        options: _zklock.ClientOptions | None = None,
    ) -> None:
        self._semaphore = _zklock.Semaphore(
            source(client),
            path,
            permits,
            shared_count=shared_count,
            label=label,
            max_hold=max_hold,
            grace=grace,
            max_waiters=max_waiters,
            options=options,
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
        self,
        count: int,
        blocking: bool = True,
        timeout: float | None = -1,
        *,
        connect_timeout: float | None = None,
    ) -> Acquiring:
        """Acquire `count` permits, all or none. Await it, or use it as an async context manager.

        >>> async with semaphore.acquire_many(3, timeout=10) as leases:
        ...     leases[2].state
        'held'
        >>> leases = await semaphore.acquire_many(2)
        >>> await leases.release()

        See `zklock.Semaphore.acquire_many` for the arguments and exceptions. As with other locks, the loss of
        a permit cancels the body of `async with`, but not if the program awaited the call first.
        """
        wait_limit = _zklock.Timeout(blocking, timeout, connect_timeout)
        return Acquiring(self._acquire_many(this_task_if_any(), count, wait_limit), "acquire_many()")

    async def _acquire_many(
        self, caller: _zklock.Owner | None, count: int, wait_limit: _zklock.Timeout
    ) -> Leases:
        return Leases(await outcome(_zklock.start_acquire_many(self._semaphore, caller, count, wait_limit)))
