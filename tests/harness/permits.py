"""Steps that the scenarios of semaphores share."""

from __future__ import annotations

from typing import Any

from harness.observer import Observer
from harness.steps import Start
from harness.worker import Worker


def counting(
    start: Start,
    surface: str,
    hosts: str,
    path: str,
    permits: int | None = None,
    *,
    session_timeout: float = 10,
    **options: Any,
) -> Worker:
    """Start a worker with a connected client `c` and a semaphore object `m` on the path."""
    worker = start(surface)
    worker.connect(hosts, session_timeout=session_timeout)
    if permits is not None:
        options["permits"] = permits
    worker.lock(path, kind="semaphore", **options)
    return worker


def leases_of(path: str) -> str:
    """Return the directory of the permit nodes: those of the holders, and of the first waiter."""
    return f"{path}/leases"


def turns_of(path: str) -> str:
    """Return the directory of the turn nodes.

    The turn is the internal lock of a semaphore. Only the contender that has it can wait for permits.
    """
    return f"{path}/locks"


def all_free(observer: Observer, path: str) -> None:
    """Wait until the semaphore has neither holders nor waiters."""
    observer.wait_queue(leases_of(path), 0, timeout=3)
    observer.wait_queue(turns_of(path), 0, timeout=3)
