"""Delays a fork of the process while a log handler runs.

Log handlers run on a thread of this package. If the process forks while a handler has a mutex locked, such as
the mutex of a file's buffer, that mutex stays locked forever in the child. The child then hangs when it logs
to the same file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from zklock import _unpatched_threading
from zklock._at_fork import register_at_fork

# Maximum time in seconds that a fork waits. There is a limit because the handler might wait for the forking
# thread.
_LIMIT = 1.0

# A handler and a fork both take the first lock before they wait for the second one. So a fork waits for the
# handler of at most one event, even if many events are queued. These are native locks, because with gevent a
# native thread logs and a greenlet forks.
_next = _unpatched_threading.original("allocate_lock")()
# Reentrant, because a handler might itself fork.
_handler_runs = _unpatched_threading.original("RLock")()


@contextlib.contextmanager
def delay_forks() -> Iterator[None]:
    """Run the block. A fork by another thread waits for the end of the block, but no longer than `_LIMIT`."""
    _acquire()
    try:
        yield
    finally:
        _release()


def _acquire(limit: float = -1) -> None:
    with _next:
        _handler_runs.acquire(timeout=limit)


def _release() -> None:
    # The release fails after a fork that did not get the lock within `_LIMIT`, and in a child that a handler
    # forked, because neither holds the lock.
    with contextlib.suppress(RuntimeError):
        _handler_runs.release()


def _reset_locks() -> None:
    global _next, _handler_runs
    _next, _handler_runs = (
        _unpatched_threading.original("allocate_lock")(),
        _unpatched_threading.original("RLock")(),
    )


register_at_fork(before=lambda: _acquire(_LIMIT), after_in_parent=_release, after_in_child=_reset_locks)
