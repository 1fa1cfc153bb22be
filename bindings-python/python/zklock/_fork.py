"""Keeps the program's log handlers and its forks apart.

A handler runs on a thread of this package. What it has locked when the process forks, such as the buffer of
a file, would be locked for ever in the child, which may log to the same file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

# How long a fork waits, in seconds. A handler may in its turn wait for what the forking thread has locked.
_LIMIT = 1.0

# Whoever waits for the second lock has the first. So a fork comes next, however many events there are.
_next = threading.Lock()
# Reentrant, for a handler may itself fork.
_at_work = threading.RLock()


@contextlib.contextmanager
def not_now() -> Iterator[None]:
    """No fork within, unless it has waited for long."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin(limit: float = -1) -> None:
    with _next:
        _at_work.acquire(timeout=limit)


def _end() -> None:
    # A fork that waited for too long does not have it. Nor has the child of a handler.
    with contextlib.suppress(RuntimeError):
        _at_work.release()


def _begin_anew() -> None:
    global _next, _at_work
    _next, _at_work = threading.Lock(), threading.RLock()


os.register_at_fork(before=lambda: _begin(_LIMIT), after_in_parent=_end, after_in_child=_begin_anew)
