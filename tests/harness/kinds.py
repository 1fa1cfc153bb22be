"""A lock of each kind, with a holder and a waiter."""

from __future__ import annotations

from typing import Any

from harness.observer import Observer
from harness.permits import leases_of, turns_of
from harness.worker import Pending, Worker

# Locks and owners are named after what waits. A semaphore has two: one that waits for its turn, and one that
# has the turn and waits for a permit.
WAITS = ("mutex", "read", "write", "turn", "permit", "multi")
FIRST, SECOND = "multi-first", "multi-second"
# What a holder holds so that these wait, and which contender takes a turn before another.
HELD = ("mutex", "read", "write", "turn", "permit", SECOND)
IN_TURN = "in turn"


def directories(path: str) -> list[str]:
    """Where the nodes of all these locks stand."""
    plain = [f"{path}/{name}" for name in ("mutex", "read", "write", FIRST, SECOND)]
    semaphores = [f"{path}/{name}" for name in ("turn", "permit")]
    return plain + [where(name) for name in semaphores for where in (turns_of, leases_of)]


def make_locks(worker: Worker, path: str, *, client_each: bool = False, hosts: str | None = None) -> None:
    """A lock of each kind, all on client `c`, or each on a client named after it, or on a hosts string."""

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


def ask_all(worker: Worker, timeout: float | None = None) -> list[Pending]:
    """Each owner asks for its lock."""
    return [worker.acquire(name, lock=name, owner=name, timeout=timeout) for name in WAITS]


def occupy(worker: Worker, path: str, observer: Observer) -> None:
    """Hold each lock, so that every contender waits. Leases and owners have the names of the locks."""
    make_locks(worker, path)
    worker.lock(f"{path}/read", lock="read", kind="write")
    worker.lock(f"{path}/write", lock="write", kind="read")
    for name in HELD:
        worker.hold(name, lock=name, owner=name)
    # It has its turn, and waits for the permit.
    worker.acquire(IN_TURN, lock="turn", owner=IN_TURN)
    observer.wait_queue(leases_of(f"{path}/turn"), 2)


def wait_queued(observer: Observer, path: str) -> None:
    """Wait until a contender waits behind the holder of each lock."""
    for name in ("mutex", "read", "write", SECOND):
        observer.wait_queue(f"{path}/{name}", 2)
    observer.wait_queue(turns_of(f"{path}/turn"), 2)
    observer.wait_queue(leases_of(f"{path}/permit"), 2)


def vacate(worker: Worker) -> None:
    """Release all that was held."""
    for name in (*HELD, IN_TURN):
        worker.release(name, owner=name)


def all_empty(observer: Observer, path: str) -> None:
    """No contender is left in any queue."""
    for directory in directories(path):
        observer.wait_queue(directory, 0)
