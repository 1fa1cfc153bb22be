"""Prevents a fork while a log handler runs.

Log handlers run on a thread of this package. If the process forks while a handler has something locked, such
as the buffer of a file, it would stay locked forever in the child, which might log to the same file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from zklock import _unpatched_threading

# Longest time that a fork waits, in seconds. A handler might itself wait for a lock of the forking thread.
_LIMIT = 1.0

# Only the holder of the first lock waits for the second one. So a fork is next in line, regardless of the
# number of events. These are native locks: with gevent, a thread logs and a greenlet forks.
_next = _unpatched_threading.original("allocate_lock")()
# Reentrant, because a handler might itself fork.
_at_work = _unpatched_threading.original("RLock")()


@contextlib.contextmanager
def not_now() -> Iterator[None]:
    """Run the block while no fork can happen, unless the fork has reached its time limit."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin(limit: float = -1) -> None:
    with _next:
        _at_work.acquire(timeout=limit)


def _end() -> None:
    # A fork that reached its limit does not hold the lock. The child of a handler does not hold it either.
    with contextlib.suppress(RuntimeError):
        _at_work.release()


def _begin_anew() -> None:
    global _next, _at_work
    _next, _at_work = (
        _unpatched_threading.original("allocate_lock")(),
        _unpatched_threading.original("RLock")(),
    )


os.register_at_fork(before=lambda: _begin(_LIMIT), after_in_parent=_end, after_in_child=_begin_anew)
