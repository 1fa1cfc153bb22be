"""Keeps the program's log handlers from running while it forks.

A handler runs on a thread of this package. Anything it has locked when the process forks, such as the buffer
of a file, would stay locked for ever in the child, which may log to the same file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from zklock import _unpatched_threading

# How long a fork waits, in seconds. A handler may itself wait for something the forking thread has locked.
_LIMIT = 1.0

# Only the holder of the first lock waits for the second, so a fork comes next, however many events there are.
# The system's locks: where gevent runs, it is a thread that logs and a greenlet that forks.
_next = _unpatched_threading.original("allocate_lock")()
# Reentrant, because a handler may itself fork.
_at_work = _unpatched_threading.original("RLock")()


@contextlib.contextmanager
def not_now() -> Iterator[None]:
    """Prevent a fork within, unless the fork has waited for too long."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin(limit: float = -1) -> None:
    with _next:
        _at_work.acquire(timeout=limit)


def _end() -> None:
    # A fork that waited for too long does not hold it. Nor does the child of a handler.
    with contextlib.suppress(RuntimeError):
        _at_work.release()


def _begin_anew() -> None:
    global _next, _at_work
    _next, _at_work = (
        _unpatched_threading.original("allocate_lock")(),
        _unpatched_threading.original("RLock")(),
    )


os.register_at_fork(before=lambda: _begin(_LIMIT), after_in_parent=_end, after_in_child=_begin_anew)
