"""Closes the clients in child processes of `multiprocessing` and of billiard, Celery's fork of it.

Such children exit through `os._exit`, so `atexit` handlers do not run.
"""

from __future__ import annotations

import sys
from typing import Any

from zklock import _zklock

# Exit priority of the finalizer. The program's finalizers run first, because they might still use locks.
_LAST = -1000


def close_at_end() -> None:
    """Make a child process of `multiprocessing` or billiard close its clients when it exits. Called before a
    process uses its first client.
    """
    process = sys.modules.get("multiprocessing.process")
    child = _child_of_billiard()
    if child is not None or (process is not None and process.parent_process() is not None):
        # billiard's children also run these finalizers.
        from multiprocessing.util import Finalize

        Finalize(None, _zklock.shutdown, exitpriority=_LAST)
    if child is not None:
        _close_after(getattr(child, "_target", None))


def _child_of_billiard() -> Any:
    """Return the object that represents this process in billiard, if billiard started it."""
    process = sys.modules.get("billiard.process")
    if process is None:
        return None
    current = process.current_process()
    # In billiard the main process has no parent.
    return current if getattr(current, "_parent_pid", None) is not None else None


def _close_after(worker: Any) -> None:
    """Make a pool worker of billiard close its clients when it exits. Such a worker runs `on_exit`, but no
    finalizers.
    """
    pool = sys.modules.get("billiard.pool")
    if pool is None or not isinstance(worker, pool.Worker):
        return
    before = worker.on_exit

    def on_exit(pid: int, exitcode: int) -> None:
        try:
            if before is not None:
                before(pid, exitcode)
        finally:
            _zklock.shutdown()

    worker.on_exit = on_exit
