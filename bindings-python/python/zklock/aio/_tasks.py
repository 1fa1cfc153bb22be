"""What tasks are to locks: owners, and waiters for outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from zklock import _zklock

_T = TypeVar("_T")

# Not the tasks' ids or addresses, which are reused.
_owners: WeakKeyDictionary[asyncio.Task[Any], _zklock.Owner] = WeakKeyDictionary()

# The task in whose context a callback runs, which is a copy of that of the task that scheduled it.
_scheduled_by: ContextVar[_zklock.Owner] = ContextVar("_scheduled_by")

# The same as in `_owners`, where it is found faster. The task is there because another one may run in this
# context, or in a copy of it.
_here: ContextVar[tuple[ref[asyncio.Task[Any]], _zklock.Owner]] = ContextVar("_here")

# Event loops keep only weak references to tasks.
_running: set[asyncio.Task[Any]] = set()


def running_loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise _no_event_loop() from None


def _no_event_loop() -> RuntimeError:
    from zklock._trio import no_event_loop

    return RuntimeError(no_event_loop())


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise _no_event_loop() from None


def this_task() -> _zklock.Owner:
    """The owner that represents the calling task."""
    task = _current_task()
    if task is None:
        raise RuntimeError("the owner of a lock is a task: call this from within one")
    here = _here.get(None)
    if here is not None and here[0]() is task:
        return here[1]
    owner = _owners.get(task)
    if owner is None:
        owner = _owners[task] = _zklock.Owner(ref(task))
        _scheduled_by.set(owner)
    _here.set((ref(task), owner))
    return owner


def this_task_if_any() -> _zklock.Owner | None:
    """The owner that represents the calling task; None outside tasks.

    A coroutine that nobody awaits any more may be closed there.
    """
    try:
        return this_task()
    except RuntimeError:
        return None


def this_task_or_callback() -> _zklock.Owner:
    """The owner that represents the calling task; in a callback, the task that scheduled it.

    If that task has not used a lock, the next one that has, among those that created it.
    """
    if _current_task() is None:
        owner = _scheduled_by.get(None)
        if owner is None:
            raise RuntimeError(
                "the owner of a lock is a task, and none scheduled this: release the lease instead"
            )
        return owner
    return this_task()


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
        event_loop.call_soon_threadsafe(call, callback, *args)


def call(callback: Callable[..., object], *args: Any) -> None:
    """Call a function, or run an async function as a task."""
    result = callback(*args)
    if asyncio.iscoroutine(result):
        task = asyncio.get_running_loop().create_task(result)
        _running.add(task)
        task.add_done_callback(_running.discard)


def represent(inner: object) -> str:
    """The `repr` of an object's asynchronous form."""
    return repr(inner).replace("zklock.", "zklock.aio.", 1)
