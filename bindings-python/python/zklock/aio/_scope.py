"""The body of an `async with` block."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import CoroutineType
from typing import Any, cast
from weakref import ref

from zklock import _zklock
from zklock._errors import Forked, NotHeld
from zklock.aio._lease import Lease, Leases


class Scope:
    """The body of an `async with` block. On a loss its task is cancelled, as by `asyncio.timeout`."""

    __slots__ = ("__weakref__", "_cancelled", "_cancelling", "_lease", "_notices", "_open", "_task")

    def __init__(self, lease: Lease | Leases) -> None:
        self._lease = lease
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._open = True
        self._cancelled = False
        # A scope that is abandoned goes with its lock object, and its lease is released.
        weak = ref(self)

        def lost(_: Lease) -> None:
            scope = weak()
            if scope is not None:
                scope._cancel()

        self._notices = [each.on_lost(lost) for each in (lease if isinstance(lease, Leases) else [lease])]

    def _cancel(self) -> None:
        if self._open and not self._cancelled and self._task is not None:
            self._cancelled = True
            self._task.cancel()

    def has_ended(self) -> bool:
        """Whether the task that entered it has ended, and so will not leave it."""
        return self._task is None or self._task.done()

    async def leave(self, raised: BaseException | None) -> None:
        """Release the lease. If it was lost, raise that, unless something else matters more."""
        self._open = False
        for notice in self._notices:
            notice.cancel()
        leaving = _zklock.Leaving(self._lease._inner)
        # The body may have released it, and a forked child does not own it.
        with suppress(NotHeld, Forked):
            await self._lease.release()
        # Only we cancelled the task: no one else asked for it.
        ours = False
        if self._cancelled and self._task is not None:
            ours = self._task.uncancel() <= self._cancelling and isinstance(raised, asyncio.CancelledError)
        leaving.end(raised, ours)


def left(scope: Scope | None, raised: BaseException | None) -> CoroutineType[Any, Any, None]:
    """Leave a scope, if there is one."""
    # The type of what an async function returns, which some checkers tell from that of other coroutines.
    return cast("CoroutineType[Any, Any, None]", _leave(scope, raised))


async def _leave(scope: Scope | None, raised: BaseException | None) -> None:
    if scope is not None:
        await scope.leave(raised)
