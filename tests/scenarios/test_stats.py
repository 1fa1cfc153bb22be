"""The counters of a client match exactly the operations performed and the requests sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, await_loss, line_up, queue_up, user
from harness.worker import Worker

Stats = Mapping[str, Any]

# The client counts requests by kind, and the proxy counts them by operation. A kind can have several
# operations.
WIRE = {
    "create": ("create", "create2"),
    "list": ("getChildren", "getChildren2"),
    "sync": ("sync",),
    "watch": ("getData",),
    "verify": ("exists",),
    "delete": ("delete",),
    "read": ("multiRead",),
    "revoke": ("setData",),
}
# Kinds that are transactions on the wire.
TRANSACTIONS = ("parents", "heartbeat", "transaction")
HOLD = 0.05


def stats(worker: Worker, client: str = "c") -> Stats:
    """Return a snapshot of the statistics. Times are in seconds."""
    value: Stats = worker.call("stats", client=client)["value"]
    return value


def counts(snapshot: Stats) -> tuple[int, ...]:
    """Return all counts of attempts and holds."""
    return tuple(snapshot[name] for name in ("acquisitions", "contended", "busy", "timeouts", "losses"))


def test_s155_counts_of_a_known_sequence(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (user(start, surface, server.hosts, path) for _ in range(2))
    assert counts(stats(worker)) == (0, 0, 0, 0, 0)
    # The lock is acquired while free, and re-entered.
    worker.hold("l1")
    worker.hold("l2")
    worker.release("l2")
    assert counts(stats(worker)) == (1, 0, 0, 0, 0)
    (waiting,) = line_up(observer, path, [other])
    assert other.try_acquire("t", owner="b")["event"] == "busy"
    worker.release("l1")
    waiting.expect("acquired")
    worker.acquire("l3", owner="b", timeout=0.1).expect("timeout")
    assert counts(stats(worker)) == (1, 0, 0, 1, 0)
    assert counts(stats(other)) == (1, 1, 1, 0, 0)
    other.release()
    assert stats(other)["hold"]["count"] == 1


def test_s156_requests_by_kind(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    before = stats(worker)["requests"]
    assert set(before) >= {*WIRE, *TRANSACTIONS}
    assert not any(before.values()), before
    worker.hold()
    worker.release()
    other = user(start, surface, server.hosts, path)
    other.hold("o")
    (waiting,) = line_up(observer, path, [worker])
    worker.acquire("late", owner="b", timeout=0.1).expect("timeout")
    assert worker.try_acquire("t", owner="b")["event"] == "busy"
    other.release("o")
    waiting.expect("acquired")
    worker.release()
    # No owner holds or waits any more, so the client sends no heartbeat between the two readings.
    asked, seen = stats(worker)["requests"], proxy.snapshot().requests
    for kind, ops in WIRE.items():
        assert asked[kind] == sum(seen[op] for op in ops), (kind, asked, seen)
    assert sum(asked[kind] for kind in TRANSACTIONS) == seen["multi"] + seen["createContainer"], (asked, seen)
    assert asked["parents"] == 1
    # The first create found no directory.
    assert (asked["create"], asked["delete"]) == (4, 3)


def test_s157_losses(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    worker.lock(path + "-other", lock="n")
    worker.hold("l")
    worker.hold("k", lock="n")
    worker.presume_lost()
    observer.kill_session(worker.sessions["c"], proxy.passwords[worker.sessions["c"]])
    await_loss(worker, "l")
    await_loss(worker, "k")
    lost = stats(worker)
    assert counts(lost) == (2, 0, 0, 0, 2)
    assert lost["hold"]["count"] == 2
    # The release does not count the hold time of the lost lease again. Closing the client does not count as a
    # loss.
    worker.release("l")
    worker.hold("m")
    worker.presume_lost()
    worker.call("close", client="c")
    assert counts(stats(worker)) == (3, 0, 0, 0, 2)
    assert stats(worker)["hold"]["count"] == 3


def test_s158_wait_and_hold_times(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (user(start, surface, server.hosts, path) for _ in range(2))
    other.hold("o")
    asked = time.monotonic()
    (waiting,) = line_up(observer, path, [worker])
    queued = time.monotonic()
    time.sleep(HOLD)
    least_wait = time.monotonic() - queued
    other.release("o")
    waiting.expect("acquired")
    granted = time.monotonic()
    time.sleep(HOLD)
    least_hold = time.monotonic() - granted
    worker.release()
    most = time.monotonic() - asked
    snapshot = stats(worker)
    assert least_wait <= snapshot["wait"]["sum"] <= most
    assert least_hold <= snapshot["hold"]["sum"] <= most
    for name in ("wait", "hold"):
        histogram = snapshot[name]
        assert histogram["count"] == 1
        assert histogram["max"] == pytest.approx(histogram["sum"])
        bounds = [bound for bound, _ in histogram["buckets"]]
        assert bounds == pytest.approx([base * 10**ten for ten in range(-4, 4) for base in (1, 2, 5)][:22])
        # The counts are cumulative, as in Prometheus.
        for bound, count in histogram["buckets"]:
            assert count == (histogram["sum"] <= bound), histogram


def test_s159_stats_of_any_client(
    surface: str, server: Standalone, proxy: Proxy, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    worker.hold()
    worker.release()
    proxy.reset()
    snapshot = stats(worker)
    assert snapshot["transport"] == "zklock"
    # Reading the statistics sends no request. It works while the server is silent, and on a closed client.
    proxy.black_hole()
    assert counts(stats(worker)) == (1, 0, 0, 0, 0)
    assert not proxy.snapshot().requests
    proxy.heal()
    worker.call("close", client="c")
    assert stats(worker) == snapshot


def test_s160_both_halves_count(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    # A downgrade counts as a separate hold.
    worker.hold("w", lock="w")
    worker.hold("r", lock="r")
    worker.release("w")
    assert counts(stats(worker)) == (2, 0, 0, 0, 0)
    # Two readers do not contend with each other. A writer contends with a reader, and a reader with a writer.
    other.hold("r", lock="r")
    writing, reading = queue_up(observer, path, [(worker, "w"), (other, "r")], owner="b")
    worker.release("r")
    other.release("r")
    writing.expect("acquired")
    worker.release()
    reading.expect("acquired")
    assert counts(stats(worker)) == (3, 1, 0, 0, 0)
    assert counts(stats(other)) == (2, 1, 0, 0, 0)


def test_s161_permits_count(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = [start(surface) for _ in range(3)]
    for worker in workers:
        worker.connect(server.hosts)
        worker.lock(path, kind="semaphore", permits=2)
    first, second, third = workers
    line = first.acquire("l", owner="a", count=2).expect("acquired")
    one, other = (lease["lease"] for lease in line["leases"])
    assert counts(stats(first)) == (2, 0, 0, 0, 0)
    assert second.try_acquire("t", owner="a")["event"] == "busy"
    # The second worker waits for a permit, the third for its turn.
    waiting = second.acquire("w", owner="a")
    observer.wait_queue(path + "/leases", 3)
    turning = third.acquire("w", owner="a")
    observer.wait_queue(path + "/locks", 2)
    third.acquire("late", owner="b", timeout=0.2).expect("timeout")
    first.release(one)
    waiting.expect("acquired")
    first.release(other)
    turning.expect("acquired")
    assert counts(stats(second)) == (1, 1, 1, 0, 0)
    assert counts(stats(third)) == (1, 1, 0, 1, 0)
