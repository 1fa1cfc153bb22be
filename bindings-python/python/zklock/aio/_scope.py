"""The body of an `async with` block."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import ref

from zklock import _zklock
from zklock._errors import Forked, LockLost, NotHeld
from zklock.aio._lease import Lease
from zklock.aio._leases import Leases

# The result of one acquire.
L = TypeVar("L", Lease, Leases)


class Scope(Generic[L]):
    """The body of an `async with` block. On a loss its task is cancelled, as by `asyncio.timeout`."""

    __slots__ = ("__weakref__", "_cancelled", "_cancelling", "_notices", "_open", "_owner", "_task", "lease")

    def __init__(self, lease: L, owner: _zklock.Owner) -> None:
        self.lease: L = lease
        self._owner = owner
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

        self._notices = lease._watch(lost)

    def _cancel(self) -> None:
        if self._open and not self._cancelled and self._task is not None:
            self._cancelled = True
            self._task.cancel()

    async def leave(self, raised: BaseException | None) -> None:
        """Release the lease. If it was lost, raise that, unless something else matters more."""
        self._open = False
        for notice in self._notices:
            notice.cancel()
        loss = self._loss()
        # The body may have released it, and a forked child does not own it.
        with suppress(NotHeld, Forked):
            await self.lease.release()
        # Only we cancelled the task: no one else asked for it.
        ours = False
        if self._cancelled and self._task is not None:
            ours = self._task.uncancel() <= self._cancelling and isinstance(raised, asyncio.CancelledError)
        noticed = isinstance(raised, LockLost)
        if loss is not None and (raised is None or ours or (isinstance(raised, Exception) and not noticed)):
            raise loss from raised

    def _loss(self) -> LockLost | None:
        try:
            self.lease.check()
        except LockLost as loss:
            return loss
        except (NotHeld, Forked):
            pass
        return None
