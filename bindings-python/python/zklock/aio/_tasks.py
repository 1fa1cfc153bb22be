"""Maps asyncio tasks to the owners that represent them, and lets tasks wait for operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from zklock import _zklock
from zklock._trio import no_event_loop

_T = TypeVar("_T")

# The owners of tasks. The key is the task itself, because ids and addresses of tasks are reused.
_owners: WeakKeyDictionary[asyncio.Task[Any], _zklock.Owner] = WeakKeyDictionary()

# The owner of the task that scheduled the current callback. A callback runs in a copy of that task's context,
# so it inherits this value.
_scheduled_by: ContextVar[_zklock.Owner] = ContextVar("_scheduled_by")

# A cached entry of `_owners`: a task and its owner. Another task can run in this context or inherit a copy of
# it, so compare the task before using the owner.
_here: ContextVar[tuple[ref[asyncio.Task[Any]], _zklock.Owner]] = ContextVar("_here")

# References to the tasks of callbacks, because event loops keep only weak references.
_running: set[asyncio.Task[Any]] = set()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise _no_event_loop() from None


def _no_event_loop() -> RuntimeError:
    return RuntimeError(no_event_loop())


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise _no_event_loop() from None


def this_task() -> _zklock.Owner:
    """Return the owner that represents the calling task."""
    task = _current_task()
    if task is None:
        raise RuntimeError("the owner of a lock is a task: call this from within one")
    return _owner_of(task)


def _owner_of(task: asyncio.Task[Any]) -> _zklock.Owner:
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
    """Return the owner that represents the calling task, or None outside of tasks.

    A call outside of tasks is possible, because Python can close an abandoned coroutine anywhere.
    """
    try:
        return this_task()
    except RuntimeError:
        return None


def this_task_or_callback() -> _zklock.Owner:
    """Return the owner that represents the calling task or, in a callback, the task that scheduled it.

    If that task has not used a lock, return the owner of its nearest ancestor task that has.
    """
    task = _current_task()
    if task is not None:
        return _owner_of(task)
    owner = _scheduled_by.get(None)
    if owner is None:
        raise RuntimeError(
            "the owner of a lock is a task, but no task scheduled this callback: release the lease instead"
        )
    return owner


async def outcome(pending: _zklock.Pending[_T]) -> _T:
    """Return the outcome of an operation, as a coroutine."""
    return await pending


def call_soon(event_loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: Any) -> None:
    """Make an event loop call a function, unless the loop is already closed."""
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
    """Return the `repr` of an object's asynchronous form."""
    return repr(inner).replace("zklock.", "zklock.aio.", 1)
