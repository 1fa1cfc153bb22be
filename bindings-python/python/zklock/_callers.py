"""Describes the threads, tasks and greenlets that use locks, for `dump()`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

from zklock import _zklock

# Packages whose frames a dump skips. The dump names the program's own line instead of, for example, a line in
# `asyncio.sleep`.
_SKIPPED = {
    "asyncio",
    "concurrent",
    "contextlib",
    "gevent",
    "greenlet",
    "queue",
    "selectors",
    "threading",
    "zklock",
}

_UNNAMED = "without a name"


def threads() -> dict[int, str]:
    """Describe each thread that runs Python code, by its identifier."""
    known = {thread.ident: thread for thread in threading.enumerate()}

    def name(ident: int) -> str:
        return _name_or_none(lambda: known[ident].name) or str(ident)

    return {ident: _describe("thread", name(ident), frame) for ident, frame in sys._current_frames().items()}


def tasks() -> Iterator[tuple[_zklock.Owner, str]]:
    """Describe each task that has used a lock."""
    from zklock.aio._tasks import _owners

    for task, owner in list(_owners.items()):
        yield owner, _describe("task", _name_or_none(task.get_name) or _UNNAMED, _frame_of(task.get_coro()))


def greenlets() -> Iterator[tuple[_zklock.Owner, str]]:
    """Describe each greenlet that has used a lock."""
    from zklock._gevent import greenlets

    for greenlet in list(greenlets):
        name = _name_or_none(partial(getattr, greenlet, "name")) or _name_or_none(partial(repr, greenlet))
        yield greenlet._zklock_owner, _describe("greenlet", name or _UNNAMED, greenlet.gr_frame)


def _name_or_none(give: Callable[[], object]) -> str | None:
    """Return the result of `give`, or None if it fails. `give` runs user code, whose errors must not stop the
    dump.
    """
    try:
        name = give()
    except Exception:
        return None
    return name if isinstance(name, str) and name else None


def _describe(kind: str, name: str, frame: FrameType | None) -> str:
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED:
        frame = frame.f_back
    if frame is None:
        return f"{kind} {name}"
    code = frame.f_code
    return f"{kind} {name} at {code.co_filename}:{frame.f_lineno} in {code.co_name}"


def _frame_of(coroutine: Any) -> FrameType | None:
    """Return the innermost frame of a waiting coroutine, except frames of the packages in `_SKIPPED`."""
    found = None
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED:
            break
        found, coroutine = frame, coroutine.cr_await
    return found
