"""Warnings about blocking locks in an event loop. A wait for such a lock blocks all tasks of the loop. The
lock does not exclude these tasks from each other, because its owner is the thread.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

# The task that acquired each lease, for leases that were acquired while an event loop ran.
_acquiring_tasks: weakref.WeakKeyDictionary[Any, weakref.ref[asyncio.Task[Any]]] = weakref.WeakKeyDictionary()
_warned = False

# Packages whose frames a warning skips, so that it names the program's own line.
_SKIPPED = {"contextlib", "zklock"}

# The files and lines for which a warning was issued.
_warned_places: set[tuple[str, int]] = set()


def warn_of_blocking() -> None:
    """Warn, once for each call site, that a wait for a lock blocks the event loop of this thread."""
    if "ipykernel" in sys.modules:
        # A notebook runs each cell in an event loop, and no other task of the loop needs to run meanwhile.
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED:
        level, frame = level + 1, frame.f_back
    place = (frame.f_code.co_filename, frame.f_lineno)
    if place in _warned_places:
        return
    warnings.warn(
        "a zklock lock is acquired on a thread that runs an event loop: no task of this loop runs until the "
        "lock is granted. Use the same lock of zklock.aio, or run the function that holds the lock in a "
        "thread (asyncio.to_thread)",
        RuntimeWarning,
        stacklevel=level,
    )
    # Record the place after the warning, so that every call fails if the program turns warnings into errors.
    _warned_places.add(place)


def remember(lease: object) -> None:
    """Remember the current task as the one that acquired the lease."""
    task = _current_task()
    if task is not None:
        _acquiring_tasks[lease] = weakref.ref(task)


def warn_of_another_task(lease: object) -> None:
    """Warn, once, if another task acquired the lease and is still running.

    There is no warning if the current task acquired the lease itself, or if the other task has ended.
    """
    global _warned
    task, acquiring_task = _current_task(), _acquiring_tasks.get(lease)
    other = None if acquiring_task is None else acquiring_task()
    if _warned or task is None or other is None or other is task or other.done():
        return
    _warned = True
    warnings.warn(
        "two tasks of one event loop hold this lock at the same time, because its owner is the thread that "
        "they share. Use the locks of zklock.aio: their owners are tasks, and a wait does not block the loop",
        RuntimeWarning,
        stacklevel=2,
    )


def _current_task() -> asyncio.Task[Any] | None:
    # A program that runs an event loop has imported asyncio. Other programs need not import it.
    from asyncio import current_task

    return current_task()
