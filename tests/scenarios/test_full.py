"""Tests of the option `max_waiters`, which limits the length of a queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.answers import ANSWER
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually, nothing_watched
from harness.worker import Worker, WorkerError

MOST = 2

AT_ONCE = 20
RACES = 5
"""Value of `max_waiters` in the race."""

KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "mutex": ({}, ""),
    "write": ({"kind": "write"}, ""),
    "semaphore": ({"kind": "semaphore", "permits": 1}, "/locks"),
}
"""The options of each kind of lock, and the directory of its waiters below the lock's path."""

READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}


def refused(worker: Worker, owner: str) -> WorkerError:
    """Let an owner try to join the full queue. Return the error."""
    error = worker.fail_to_enter(ANSWER, owner, owner=owner)
    assert (error.code, error.reason) == ("LOCK_TIMEOUT", "full")
    return error


@pytest.mark.parametrize("kind", KINDS)
def test_s834_a_queue_that_is_full(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start, kind: str
) -> None:
    options, below = KINDS[kind]
    # Each contender has its own client, because the limit applies to the queue on the servers.
    workers = [start(surface) for _ in range(MOST + 2)]
    for worker, hosts in zip(workers, [server.hosts] * (MOST + 1) + [proxy.hosts], strict=True):
        worker.connect(hosts)
        worker.lock(path, max_waiters=MOST, **options)
    holder, *waiters, late = workers
    holder.hold()
    # A semaphore's waiters queue in the directory `locks`, and its holders are not in this queue. Any other
    # lock has only one queue, which also contains the holder.
    observer.wait_queue(f"{path}{below}", int(not below))
    waiting = []
    for place, waiter in enumerate(waiters, start=1):
        waiting.append(waiter.acquire(owner=f"waiter-{place}"))
        observer.wait_queue(f"{path}{below}", place + (not below))
    before = observer.queue(path), observer.queue(f"{path}{below}")
    # After this attempt, the client knows that the directories exist.
    refused(late, "first")
    proxy.reset()
    error = refused(late, "late")
    assert f"{MOST} contenders wait" in error.message
    requests = proxy.snapshot().requests
    assert set(requests) <= READS
    assert (observer.queue(path), observer.queue(f"{path}{below}")) == before
    nothing_watched(server, late, path)
    # A try fails because the lock is taken, independent of the limit.
    assert late.try_acquire("tried", owner="tried")["event"] == "busy"
    # After one waiter gets the lock, another contender can wait.
    holder.release()
    waiting[0].expect("acquired")
    observer.wait_queue(f"{path}{below}", MOST - 1 + (not below))
    joined = late.acquire("joined", owner="joined")
    observer.wait_queue(f"{path}{below}", MOST + (not below))
    waiters[0].release(owner="waiter-1")
    waiting[1].expect("acquired")
    waiters[1].release(owner="waiter-2")
    joined.expect("acquired")
    late.release("joined", owner="joined")
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=MOST + 2)
    observer.assert_free(f"{path}{below}")


def test_s835_many_acquires_with_few_places(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, crowd = start(surface), start(surface)
    for worker in (holder, crowd):
        worker.connect(server.hosts)
        worker.lock(path, max_waiters=RACES)
    holder.hold()
    # The waiters of one client count towards the limit even before they have nodes.
    owners = [f"o{number}" for number in range(AT_ONCE)]
    asked = {owner: crowd.send("enter", lock="m", scope=owner, owner=owner) for owner in owners}
    queue = observer.wait_queue(path, 1 + RACES)
    codes: Counter[str] = Counter()

    def all_others_are_refused() -> bool:
        return sum(pending.done for pending in asked.values()) == AT_ONCE - RACES

    eventually(all_others_are_refused, "all but the waiters are refused")
    admitted = {owner: pending for owner, pending in asked.items() if not pending.done}
    for owner, pending in asked.items():
        if owner not in admitted:
            error = pending.error()
            codes[f"{error.code} {error.reason}"] += 1
    assert codes == {"LOCK_TIMEOUT full": AT_ONCE - RACES}
    assert observer.queue(path) == queue
    # Admitted waiters are granted the lock like all others.
    holder.release()
    for _ in range(RACES):
        eventually(lambda: any(pending.done for pending in admitted.values()), "one waiter is granted")
        owner = next(owner for owner, pending in admitted.items() if pending.done)
        admitted.pop(owner).expect("entered")
        assert not any(pending.done for pending in admitted.values()), "only one waiter is granted at a time"
        crowd.leave(owner, owner=owner).expect("left")
    assert admitted == {}
    observer.assert_free(path)
