"""What tasks are to locks: owners, and waiters for outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from zklock import _zklock

_T = TypeVar("_T")

# Not the tasks' ids or addresses, which are reused.
_owners: WeakKeyDictionary[asyncio.Task[Any], _zklock.Owner] = WeakKeyDictionary()


def this_task() -> _zklock.Owner:
    """The owner that represents the calling task."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("the owner of a lock is a task: call this from within one")
    owner = _owners.get(task)
    if owner is None:
        owner = _owners[task] = _zklock.Owner()
    return owner


async def outcome(pending: _zklock.Pending[_T]) -> _T:
    """Wait for the outcome of an operation."""
    try:
        await pending
        return pending.take()
    finally:
        # When cancelled, it leaves the queue and releases a lease that has just arrived.
        pending.abandon()


def call_soon(event_loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: Any) -> None:
    """Have an event loop call a function, unless the loop is closed by now."""
    with suppress(RuntimeError):
        event_loop.call_soon_threadsafe(callback, *args)


def represent(inner: object) -> str:
    """The `repr` of an object's asynchronous form."""
    return repr(inner).replace("zklock.", "zklock.aio.", 1)
