"""The scope of an `async with` block: cancels its task when the lock is lost, and releases the lock."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import CoroutineType
from typing import Any, cast
from weakref import ref

from zklock import _zklock
from zklock._errors import Forked, NotHeld
from zklock.aio._lease import Lease, Leases
from zklock.aio._tasks import outcome


class Scope:
    """The scope of an `async with` block. A loss of the lock cancels the scope's task, as `asyncio.timeout`
    does when it expires.
    """

    __slots__ = ("__weakref__", "_cancelled", "_cancelling", "_lease", "_notices", "_open", "_task")

    def __init__(self, lease: Lease | Leases) -> None:
        self._lease = lease
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._open = True
        self._cancelled = False
        # Keep only a weak reference, so that an abandoned scope is dropped with its lock object, and its
        # lease is released.
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
        """Return whether the task that entered the scope has ended. Such a scope is never left."""
        return self._task is None or self._task.done()

    async def leave(self, raised: BaseException | None) -> None:
        """Release the lease. If it was lost, raise `LockLost`, unless the body raised another exception."""
        self._close()
        leaving = _zklock.Leaving(self._lease._inner)
        # Ignore `NotHeld`, because the body might have released the lease, and `Forked` in a forked child.
        with suppress(NotHeld, Forked):
            await self._lease.release()
        # True if only this scope cancelled the task.
        only_by_scope = self._uncancel() and isinstance(raised, asyncio.CancelledError)
        leaving.end(raised, only_by_scope)

    async def record(self, turn: _zklock.Turn) -> None:
        """Record the slot of a turn (a call of `once()`) whose body has succeeded, and release the lease."""
        self._close()
        try:
            await outcome(turn.start_record())
        finally:
            # Undo the cancellation if the lock was lost and the body ignored the `CancelledError`. The
            # statement above raises `LockLost`.
            self._uncancel()

    def _close(self) -> None:
        self._open = False
        for notice in self._notices:
            notice.cancel()

    def _uncancel(self) -> bool:
        """Undo this scope's cancellation of the task. Return True if no other code has cancelled the task."""
        if not self._cancelled or self._task is None:
            return False
        return self._task.uncancel() <= self._cancelling


def leave_scope(scope: Scope | None, raised: BaseException | None) -> CoroutineType[Any, Any, None]:
    """Leave a scope, if there is one."""
    # Declare the precise type that an async function returns, because some type checkers distinguish it from
    # other coroutines.
    return cast("CoroutineType[Any, Any, None]", _leave(scope, raised))


async def _leave(scope: Scope | None, raised: BaseException | None) -> None:
    if scope is not None:
        await scope.leave(raised)
