"""Warns of tasks that share a lock for threads, which lets all of them in."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from typing import Any

# Which task acquired a lease; only those that were acquired while an event loop ran.
_takers: weakref.WeakKeyDictionary[Any, weakref.ref[asyncio.Task[Any]]] = weakref.WeakKeyDictionary()
_warned = False


def remember(lease: object) -> None:
    """Note which task has acquired it."""
    task = asyncio.current_task()
    if task is not None:
        _takers[lease] = weakref.ref(task)


def warn_of_another_task(lease: object) -> None:
    """Warn, once, if a task that still runs has acquired it, and the current one is another.

    Nothing else is warned of, so that there is no false alarm: a task may use a lock of its own, and programs
    that run in an event loop without knowing it, as in a notebook, have but one task.
    """
    global _warned
    task, taker = asyncio.current_task(), _takers.get(lease)
    other = None if taker is None else taker()
    if _warned or task is None or other is None or other is task or other.done():
        return
    _warned = True
    warnings.warn(
        "two tasks of one event loop are in this lock at once: its owner is the thread, and they share it. "
        "Use the locks of zklock.aio, whose owners are tasks, and whose waits do not stop the event loop",
        RuntimeWarning,
        stacklevel=2,
    )
