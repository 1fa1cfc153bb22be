"""Locks of every kind, each with a holder and a waiter."""

from __future__ import annotations

from typing import Any

from harness.observer import Observer
from harness.permits import leases_of, turns_of
from harness.worker import Pending, Worker

# Each name is the name of a lock and of the owner that waits for it. `turn` and `permit` are semaphores: a
# contender first waits for an internal lock (the turn) and then for a permit. The owner of `turn` waits for
# the internal lock, and the owner of `permit` waits for a permit.
WAITS = ("mutex", "read", "write", "turn", "permit", "multi")
FIRST, SECOND = "multi-first", "multi-second"
# Locks that `occupy` holds, so that all waiters in WAITS must wait.
HELD = ("mutex", "read", "write", "turn", "permit", SECOND)
# The owner that has the turn of the semaphore "turn".
IN_TURN = "in turn"


def directories(path: str) -> list[str]:
    """Return the directories of all these locks."""
    plain = [f"{path}/{name}" for name in ("mutex", "read", "write", FIRST, SECOND)]
    semaphores = [f"{path}/{name}" for name in ("turn", "permit")]
    return plain + [where(name) for name in semaphores for where in (turns_of, leases_of)]


def make_locks(worker: Worker, path: str, *, client_each: bool = False, hosts: str | None = None) -> None:
    """Create a lock of each kind.

    The locks use the client `c`. With `client_each`, each lock has its own client. With `hosts`, the locks
    are created with this hosts string.
    """

    def make(name: str, waits: str, **options: Any) -> None:
        client = waits if client_each else "c"
        worker.lock(f"{path}/{name}", lock=name, client=client, hosts=hosts, **options)

    make("mutex", "mutex")
    for half in ("read", "write"):
        make(half, half, kind=half)
    for semaphore in ("turn", "permit"):
        make(semaphore, semaphore, kind="semaphore", permits=1)
    for member in (FIRST, SECOND):
        make(member, "multi")
    worker.multi([SECOND, FIRST])


def acquire_all(worker: Worker, timeout: float | None = None) -> list[Pending]:
    """Start an acquire of each lock by its owner."""
    return [worker.acquire(name, lock=name, owner=name, timeout=timeout) for name in WAITS]


def occupy(worker: Worker, path: str, observer: Observer) -> None:
    """Hold each lock, so that every contender waits."""
    make_locks(worker, path)
    worker.lock(f"{path}/read", lock="read", kind="write")
    worker.lock(f"{path}/write", lock="write", kind="read")
    for name in HELD:
        worker.hold(name, lock=name, owner=name)
    # The owner IN_TURN holds the internal lock while it waits for the permit, so the next contender must wait
    # for the internal lock.
    worker.acquire(IN_TURN, lock="turn", owner=IN_TURN)
    observer.wait_queue(leases_of(f"{path}/turn"), 2)


def wait_queued(observer: Observer, path: str) -> None:
    """Wait until a contender waits behind the holder of each lock."""
    for name in ("mutex", "read", "write", SECOND):
        observer.wait_queue(f"{path}/{name}", 2)
    observer.wait_queue(turns_of(f"{path}/turn"), 2)
    observer.wait_queue(leases_of(f"{path}/permit"), 2)


def release_all(worker: Worker) -> None:
    """Release all locks that `occupy` acquired."""
    for name in (*HELD, IN_TURN):
        worker.release(name, owner=name)


def all_empty(observer: Observer, path: str) -> None:
    """Wait until all queues are empty."""
    for directory in directories(path):
        observer.wait_queue(directory, 0)
