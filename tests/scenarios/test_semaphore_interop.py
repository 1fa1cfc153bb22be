"""Tests of semaphores that zklock shares with Curator."""

from __future__ import annotations

import struct

from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import counting, leases_of, turns_of
from harness.server import Standalone
from harness.steps import Start, assert_within

SESSION = 2.0
PERMITS = 3


def test_s116_curators_permits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ours, theirs = (counting(start, name, server.hosts, path, PERMITS) for name in (surface, "curator"))
    ours.hold("ours", count=2)
    theirs.hold("theirs")
    for worker in (ours, theirs):
        assert worker.try_acquire("x", owner="b")["event"] == "busy"
    # Curator's contender has the turn, and zklock's queues behind it.
    first = theirs.acquire("first", owner="b")
    observer.wait_queue(leases_of(path), PERMITS + 1)
    second = ours.acquire("second", owner="b", count=2)
    observer.wait_queue(turns_of(path), 2)
    ours.release("ours/0")
    first.expect("acquired")
    # zklock's contender has the turn, and Curator's queues behind it.
    observer.wait_queue(leases_of(path), PERMITS + 2)
    third = theirs.acquire("third", owner="c")
    observer.wait_queue(turns_of(path), 2)
    theirs.release("theirs")
    observer.wait_queue(leases_of(path), PERMITS + 1)
    assert not second.done
    theirs.release("first", owner="b")
    second.expect("acquired")
    observer.wait_queue(leases_of(path), PERMITS + 1)
    assert not third.done
    ours.release("ours/1")
    third.expect("acquired")
    ours.release("second")
    theirs.release("third", owner="c")
    assert_clean(ours.holds() + theirs.holds(), at_least=7)
    observer.wait_queue(leases_of(path), 0, timeout=3)


def test_s117_permits_of_zklock_and_curator(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    names = [surface, surface, "curator", "curator"]
    workers = [counting(start, name, server.hosts, path, PERMITS) for name in names]
    contending = [
        worker.contend(path, kind="semaphore", permits=PERMITS, owners=3, rounds=8, hold_ms=(1, 5))
        for worker in workers
    ]
    for pending in contending:
        pending.expect("done", 60)
    holds = [hold for worker in workers for hold in worker.holds()]
    assert_clean(holds, at_least=len(names) * 3 * 8)
    # Some holds must overlap. In a mutex none would.
    assert any(one.granted < other.granted < one.until for one in holds for other in holds)
    observer.wait_queue(leases_of(path), 0, timeout=3)
    observer.wait_queue(turns_of(path), 0, timeout=3)


def test_s118_a_crash_with_curators_permits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    for victim, heir in ((surface, "curator"), ("curator", surface)):
        holder = counting(start, victim, server.hosts, path, PERMITS, session_timeout=SESSION)
        other = counting(start, heir, server.hosts, path, PERMITS)
        holder.hold("l", count=PERMITS)
        waiting = other.acquire("w", count=PERMITS)
        observer.wait(leases_of(path), lambda nodes: len(nodes) > PERMITS, "waiter")
        holder.kill()
        assert holder.killed is not None
        assert_within(waiting.expect("acquired"), holder.killed, SESSION + 2)
        other.release("w")
        observer.wait_queue(leases_of(path), 0, timeout=3)


def test_s119_curators_shared_count(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    count = f"{path}-count"
    observer.create(count)
    observer.client.set(count, struct.pack(">i", 1))
    ours, theirs = (
        counting(start, name, server.hosts, path, shared_count=count) for name in (surface, "curator")
    )
    theirs.hold("t")
    waiting = ours.acquire("o")
    observer.wait_queue(leases_of(path), 2)
    observer.client.set(count, struct.pack(">i", 2))
    waiting.expect("acquired")
    late = theirs.acquire("late", owner="b")
    observer.wait_queue(leases_of(path), 3)
    assert ours.try_acquire("x", owner="b")["event"] == "busy"
    ours.release("o")
    late.expect("acquired")
    theirs.release("t")
    theirs.release("late", owner="b")
    observer.wait_queue(leases_of(path), 0, timeout=3)
