"""Tests of the number of permits: its valid values, and the agreement of all contenders on it."""

from __future__ import annotations

import struct

import pytest

from harness.observer import Observer
from harness.permits import all_free, counting, leases_of, turns_of
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, argument_name, nothing_watched


def test_s95_bad_numbers(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = counting(start, surface, proxy.hosts, path, 3)
    proxy.reset()
    for wrong in ({"permits": 0}, {"shared_count": "count"}):
        (argument,) = wrong
        error = worker.send("lock", lock="x", client="c", path=path, kind="semaphore", **wrong).error()
        assert error.code == "BAD_ARGUMENT"
        assert argument_name(surface, argument) in error.message
    for count in (0, 4):
        error = worker.acquire(count=count).error()
        assert error.code == "BAD_ARGUMENT"
        assert "count" in error.message
    assert proxy.snapshot().total == 0


def test_s96_permits_mismatch(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, other = (
        counting(start, surface, server.hosts, path, 2),
        counting(start, surface, server.hosts, path, 5),
    )
    holder.hold()
    error = other.acquire().error()
    assert error.code == "PERMITS_MISMATCH"
    assert "2" in error.message
    assert "5" in error.message
    assert path in error.message
    assert leases_of(path) not in error.message
    observer.wait_queue(turns_of(path), 0, timeout=2)
    assert len(observer.queue(leases_of(path))) == 1
    nothing_watched(server, other, path)
    # An acquire through another lock object of the same client is refused if its number of permits differs.
    holder.lock(path, lock="x", kind="semaphore", permits=3)
    assert holder.acquire("y", lock="x", owner="b").error().code == "PERMITS_MISMATCH"
    holder.hold("again")
    holder.release("again")
    holder.release()
    # Data that zklock did not write contains no number of permits.
    observer.client.create(f"{leases_of(path)}/theirs-", b"permits 7", ephemeral=True, sequence=True)
    other.hold("now", count=4)
    other.release("now")
    assert len(observer.queue(leases_of(path))) == 1


def test_s97_a_mismatch_is_seen_while_waiting(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (
        counting(start, surface, server.hosts, path, 2),
        counting(start, surface, server.hosts, path, 3),
    )
    # The worker has used the semaphore without contention. It must still compare the number of permits in its
    # next acquire.
    worker.hold()
    worker.release()
    other.hold("l", count=2)
    error = worker.acquire("w", timeout=10).error()
    assert error.code == "PERMITS_MISMATCH"
    observer.wait_queue(turns_of(path), 0, timeout=2)
    observer.wait_queue(leases_of(path), 2, timeout=2)
    nothing_watched(server, worker, path)
    other.hold("m")
    other.release("m")
    other.release("l")
    all_free(observer, path)


def write_count(observer: Observer, node: str, data: bytes) -> None:
    """Set the number that a semaphore reads, as Curator's SharedCount does."""
    observer.create(node)
    observer.client.set(node, data)


def test_s98_a_shared_count(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    count = f"{path}-count"
    write_count(observer, count, struct.pack(">i", 1))
    holder, waiter = (counting(start, surface, server.hosts, path, shared_count=count) for _ in range(2))
    holder.hold()
    waiting = waiter.acquire("w", count=2)
    # The waiter requests more permits than exist, so it waits at the head of the queue and creates no permit
    # nodes.
    observer.wait_queue(turns_of(path), 1)
    assert waiter.try_acquire("t", owner="b")["event"] == "busy"
    assert len(observer.queue(leases_of(path))) == 1
    write_count(observer, count, struct.pack(">i", 2))
    observer.wait_queue(leases_of(path), 3)
    write_count(observer, count, struct.pack(">i", 3))
    waiting.expect("acquired")
    # The number of permits is lowered. Holders keep their permits. No permit is granted until fewer permits
    # are held than the new number.
    write_count(observer, count, struct.pack(">i", 1))
    late = holder.acquire("late", owner="b")
    observer.wait_queue(leases_of(path), 4)
    waiter.release("w")
    observer.wait_queue(leases_of(path), 2)
    assert not late.done
    holder.release()
    late.expect("acquired")
    holder.release("late", owner="b")
    nothing_watched(server, waiter, path)
    nothing_watched(server, holder, count)
    all_free(observer, path)


def test_s283_more_than_there_are(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    count = f"{path}-count"
    write_count(observer, count, struct.pack(">i", 2))
    holder = counting(start, surface, server.hosts, path, shared_count=count)
    worker = counting(start, surface, proxy.hosts, path, shared_count=count)
    holder.hold()
    proxy.reset()
    line = worker.acquire("w", count=500, timeout=0.5).expect("timeout")
    # The waiter keeps its position at the head of the queue, because the number of permits could still be
    # raised.
    assert proxy.snapshot().requests["create2"] == 1, line
    assert worker.try_acquire("t", owner="b", count=500)["event"] == "busy"
    assert proxy.snapshot().requests["create2"] == 1
    observer.wait_queue(turns_of(path), 0, timeout=2)
    nothing_watched(server, worker, count)
    # The waiter has nodes for its three permits only while at least three permits exist.
    waiting = worker.acquire("w", count=3)
    observer.wait_queue(turns_of(path), 1)
    for number, nodes in ((2, 1), (3, 4), (1, 1), (3, 4), (2, 1)):
        write_count(observer, count, struct.pack(">i", number))
        observer.wait_queue(leases_of(path), nodes, timeout=3)
        assert not waiting.done
    write_count(observer, count, struct.pack(">i", 4))
    waiting.expect("acquired")
    assert len(observer.queue(leases_of(path))) == 4
    worker.release("w")
    holder.release()
    all_free(observer, path)


@pytest.mark.parametrize("shared", [False, True])
def test_s284_one_attempt(
    surface: str, shared: bool, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    write_count(observer, f"{path}-count", struct.pack(">i", 4))
    permits = {"shared_count": f"{path}-count"} if shared else {"permits": 4}
    holder, worker = (counting(start, surface, server.hosts, path, **permits) for _ in range(2))

    def counts() -> list[int]:
        value = worker.call("stats", client="c")["value"]
        return [value[name] for name in ("timeouts", "busy")]

    holder.hold("l", count=2)
    worker.acquire("w", count=4, timeout=0.3).expect("timeout")
    assert counts() == [1, 0]
    assert worker.try_acquire("t", owner="b", count=3)["event"] == "busy"
    assert counts() == [1, 1]
    # The attempt times out while another contender has the turn.
    first = holder.acquire("f", owner="b", count=4)
    observer.wait_queue(leases_of(path), 6)
    worker.acquire("w", count=2, timeout=0.3).expect("timeout")
    assert counts() == [2, 1]
    holder.release("l")
    first.expect("acquired")
    holder.release("f", owner="b")
    worker.hold("w", count=2)
    assert counts() == [2, 1]
    worker.release("w")
    all_free(observer, path)


@pytest.mark.parametrize("data", [b"", b"3", b"\0\0\0\0\0\0\0\3", b"\xff\xff\xff\xff", None])
def test_s99_no_number_to_read(
    surface: str, data: bytes | None, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    count = f"{path}-count"
    worker, other = (counting(start, surface, server.hosts, path, shared_count=count) for _ in range(2))
    if data is not None:
        write_count(observer, count, data)
    for asked in (worker.acquire(), worker.send("try", lock="m", lease="t", owner="b")):
        error = asked.error()
        assert error.code == "BAD_ARGUMENT"
        assert argument_name(surface, "shared_count") in error.message
        assert count in error.message
    # The attempt created no nodes.
    assert not observer.exists(path)
    # A waiter gets the same error.
    write_count(observer, count, struct.pack(">i", 1))
    worker.hold()
    waiting = other.acquire()
    observer.wait_queue(leases_of(path), 2)
    if data is None:
        observer.delete(count)
    else:
        write_count(observer, count, data)
    assert waiting.error().code == "BAD_ARGUMENT"
    worker.release()
    all_free(observer, path)
    nothing_watched(server, other, path)
