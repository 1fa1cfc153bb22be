"""Semaphores: a fixed number hold at the same time, in turn."""

from __future__ import annotations

import struct

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import (
    Start,
    await_loss,
    counting,
    eventually,
    leases_of,
    nothing_watched,
    seconds,
    turns_of,
)

READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}
SESSION = 2.0
TIMEOUT = 0.5


def all_free(observer: Observer, path: str) -> None:
    """No contender holds a permit, waits for one, or has the turn."""
    observer.wait_queue(leases_of(path), 0, timeout=3)
    observer.wait_queue(turns_of(path), 0, timeout=3)


def test_s85_permits_together(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    pair = [counting(start, surface, server.hosts, path, 3) for _ in range(2)]
    pair[0].hold("l0", owner="a")
    pair[0].hold("l1", owner="a")
    pair[1].hold("l2")
    waiting = pair[1].acquire("l3", owner="b")
    observer.wait_queue(leases_of(path), 4)
    assert not waiting.done
    pair[0].release("l1", owner="other")
    waiting.expect("acquired")
    pair[0].release("l0")
    pair[1].release("l2")
    pair[1].release("l3", owner="b")
    contending = [worker.contend(path, kind="semaphore", permits=3, owners=4, rounds=5) for worker in pair]
    for pending in contending:
        pending.expect("done", 30)
    assert_clean(pair[0].holds() + pair[1].holds(), at_least=4 + 40)
    all_free(observer, path)


def test_s86_turns(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    holder, many, few = (counting(start, surface, server.hosts, path, 3) for _ in range(3))
    holder.hold("l", count=2)
    wanted = many.acquire("m", count=3)
    observer.wait_queue(leases_of(path), 5)
    # There is a permit for this one, but it comes after one that wants three.
    behind = few.acquire("f")
    observer.wait_queue(turns_of(path), 2)
    holder.release("l/0")
    observer.wait_queue(leases_of(path), 4)
    assert not wanted.done
    assert not behind.done
    holder.release("l/1")
    assert len(wanted.expect("acquired")["leases"]) == 3
    observer.wait_queue(leases_of(path), 4)
    assert not behind.done
    many.release("m")
    behind.expect("acquired")
    few.release("f")
    assert_clean(holder.holds() + many.holds() + few.holds(), at_least=6)
    all_free(observer, path)


def test_s87_many_at_once(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (counting(start, surface, server.hosts, path, 3) for _ in range(2))
    leases = worker.hold("l", count=3)["leases"]
    nodes = [lease["node"] for lease in leases]
    assert [node.rsplit("/", 1)[-1] for node in nodes] == observer.queue(leases_of(path))
    assert all(node.startswith(leases_of(path) + "/") for node in nodes)
    waiting = [other.acquire(f"w{number}", owner=f"o{number}") for number in range(3)]
    for number in (1, 2, 0):
        worker.release(f"l/{number}", owner="anybody")
        eventually(lambda: any(pending.done for pending in waiting), "one of them is granted")
        (granted,) = [pending for pending in waiting if pending.done]
        granted.expect("acquired")
        waiting.remove(granted)
    assert worker.send("release", lease="l/0").error().code == "NOT_HELD"
    for number in range(3):
        other.release(f"w{number}", owner="anybody")
    assert_clean(worker.holds() + other.holds(), at_least=6)
    all_free(observer, path)


def test_s88_no_hold_and_wait(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    workers = [counting(start, surface, server.hosts, path, 3) for _ in range(3)]
    for turn in range(8):
        asked = [worker.acquire(f"l{turn}", count=2, timeout=10) for worker in workers]
        # Each as soon as it has its two: if two had one each, neither would ever hold both.
        left = list(zip(workers, asked, strict=True))
        while left:
            eventually(lambda: any(pending.done for _, pending in left), "one of them has both")  # noqa: B023
            for worker, pending in [one for one in left if one[1].done]:
                pending.expect("acquired")
                worker.release(f"l{turn}")
                left.remove((worker, pending))
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=3 * 8 * 2)
    all_free(observer, path)


def test_s89_try(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = counting(start, surface, server.hosts, path, 3)
    worker = counting(start, surface, proxy.hosts, path, 3)
    assert holder.try_acquire("t")["event"] == "acquired"
    assert holder.try_acquire("u", count=2)["event"] == "acquired"
    proxy.reset()
    assert worker.try_acquire()["event"] == "busy"
    requests = proxy.snapshot().requests
    assert requests.total() == 1
    assert set(requests) <= READS
    holder.release("t")
    # One is free: too few for two.
    proxy.reset()
    assert worker.try_acquire(count=2)["event"] == "busy"
    assert proxy.snapshot().requests.total() == 1
    assert worker.try_acquire()["event"] == "acquired"
    assert worker.try_acquire("again")["event"] == "busy"
    worker.release()
    holder.release("u")
    nothing_watched(server, worker, path)
    assert_clean(holder.holds() + worker.holds(), at_least=4)
    all_free(observer, path)


@pytest.mark.parametrize("place", ["permits", "turn"])
def test_s90_timeouts(
    surface: str, place: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, first, leaver, last = (counting(start, surface, server.hosts, path, 2) for _ in range(4))
    holder.hold("l", count=2)
    ahead = first.acquire("f", owner="b") if place == "turn" else None
    if ahead is not None:
        observer.wait_queue(leases_of(path), 3)
    leaving = leaver.acquire(count=2, timeout=TIMEOUT)
    line = leaving.expect("timeout")
    assert TIMEOUT <= seconds(line, leaving.sent) <= TIMEOUT + 0.2
    observer.wait_queue(leases_of(path), 2 if ahead is None else 3, timeout=2)
    observer.wait_queue(turns_of(path), 0 if ahead is None else 1, timeout=2)
    nothing_watched(server, leaver, path)
    behind = last.acquire()
    holder.release("l/0")
    (behind if ahead is None else ahead).expect("acquired")
    holder.release("l/1")
    behind.expect("acquired")
    last.release()
    if ahead is not None:
        first.release("f", owner="b")
    assert_clean([hold for worker in (holder, first, last) for hold in worker.holds()], at_least=3)
    all_free(observer, path)


@pytest.mark.parametrize("place", ["permits", "turn"])
def test_s91_cancellation(
    surface: str, place: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, first, leaver, last = (counting(start, surface, server.hosts, path, 1) for _ in range(4))
    owner = leaver.surface.cancellable_owner
    holder.hold()
    ahead = first.acquire("f", owner="b") if place == "turn" else None
    if ahead is not None:
        observer.wait_queue(leases_of(path), 2)
    leaving = leaver.acquire(owner=owner)
    observer.wait_queue(leases_of(path), 2)
    observer.wait_queue(turns_of(path), 1 if ahead is None else 2)
    leaver.cancel(leaving)
    leaving.expect("cancelled")
    observer.wait_queue(leases_of(path), 1 if ahead is None else 2, timeout=2)
    observer.wait_queue(turns_of(path), 0 if ahead is None else 1, timeout=2)
    nothing_watched(server, leaver, path)
    behind = last.acquire()
    holder.release()
    if ahead is not None:
        ahead.expect("acquired")
        first.release("f", owner="b")
    behind.expect("acquired")
    last.release()
    leaver.hold("again", owner="b")
    leaver.release("again", owner="b")
    assert_clean([hold for worker in (holder, leaver, last) for hold in worker.holds()], at_least=3)
    all_free(observer, path)


def test_s92_a_killed_holder_frees_its_permits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = counting(start, surface, server.hosts, path, 2, session_timeout=SESSION)
    other = counting(start, surface, server.hosts, path, 2)
    holder.hold("l", count=2)
    waiting = other.acquire(count=2)
    observer.wait_queue(leases_of(path), 4)
    holder.kill()
    assert holder.killed is not None
    assert seconds(waiting.expect("acquired"), holder.killed) <= SESSION + 2
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=4)
    all_free(observer, path)


def test_s93_session_lost(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = counting(start, surface, server.hosts, path, 2)
    loser = counting(start, surface, proxy.hosts, path, 2)
    holder.hold()
    loser.hold()
    waiting = loser.acquire("w", owner="b")
    observer.wait_queue(leases_of(path), 3)
    loser.presume_lost()
    session = loser.sessions["c"]
    observer.kill_session(session, proxy.passwords[session])
    await_loss(loser)
    # Its own permit went with the session, so there is one for the waiter, in the new session.
    assert int(waiting.expect("acquired")["session"]) != session
    loser.release("w", owner="b")
    holder.release()
    assert_clean(holder.holds() + loser.holds(), at_least=3)
    all_free(observer, path)


def test_s94_a_waiters_node_is_deleted(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, waiter, rival = (counting(start, surface, server.hosts, path, 2) for _ in range(3))
    holder.hold()
    waiting = waiter.acquire("w", count=2)
    mine = observer.wait_queue(leases_of(path), 3)[1:]
    observer.delete(f"{leases_of(path)}/{mine[0]}")
    observer.wait(leases_of(path), lambda nodes: len(nodes) == 3 and mine[0] not in nodes, "node anew")
    # Without its turn it deletes its permit nodes and queues again: the rival comes first.
    competing = rival.acquire("r", count=2)
    (turn, behind) = observer.wait_queue(turns_of(path), 2)
    observer.delete(f"{turns_of(path)}/{turn}")
    observer.wait(turns_of(path), lambda nodes: nodes[:1] == [behind] and len(nodes) == 2, "turn anew")
    observer.wait_queue(leases_of(path), 3)
    holder.release()
    competing.expect("acquired")
    assert not waiting.done
    rival.release("r")
    waiting.expect("acquired")
    waiter.release("w")
    assert_clean([hold for worker in (holder, waiter, rival) for hold in worker.holds()], at_least=5)
    all_free(observer, path)


def test_s95_bad_numbers(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = counting(start, surface, proxy.hosts, path, 3)
    proxy.reset()
    for wrong in ({"permits": 0}, {"shared_count": "count"}):
        (argument,) = wrong
        error = worker.send("lock", lock="x", client="c", path=path, kind="semaphore", **wrong).error()
        assert error.code == "BAD_ARGUMENT"
        assert argument in error.message
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
    # Another object of the client that holds is no exception.
    holder.lock(path, lock="x", kind="semaphore", permits=3)
    assert holder.acquire("y", lock="x", owner="b").error().code == "PERMITS_MISMATCH"
    holder.hold("again")
    holder.release("again")
    holder.release()
    # Data that zklock did not write says nothing about a number.
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
    # Checked when no other contender could disagree.
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
    observer.wait_queue(leases_of(path), 3)
    assert waiter.try_acquire("t", owner="b")["event"] == "busy"
    write_count(observer, count, struct.pack(">i", 2))
    write_count(observer, count, struct.pack(">i", 3))
    waiting.expect("acquired")
    # Lowered: holders keep their permits, and no one is granted one until few enough hold.
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
        assert "shared_count" in error.message
        assert count in error.message
    observer.wait_queue(turns_of(path), 0, timeout=2)
    # A waiter is told as well.
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


def test_s100_close(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    holder, other = (counting(start, surface, server.hosts, path, 1) for _ in range(2))
    holder.hold()
    mine = holder.acquire("w", owner="b")
    observer.wait_queue(leases_of(path), 2)
    theirs = other.acquire()
    holder.presume_lost()
    holder.call("close", client="c")
    assert mine.error().code == "CLIENT_CLOSED"
    theirs.expect("acquired")
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=2)
    all_free(observer, path)


@pytest.mark.parametrize("place", ["permits", "turn"])
def test_s101_a_cut_while_waiting(
    surface: str, place: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder = counting(start, surface, server.hosts, path, 1)
    waiter = counting(start, surface, proxy.hosts, path, 1)
    holder.hold()
    ahead = holder.acquire("b", owner="b") if place == "turn" else None
    if ahead is not None:
        observer.wait_queue(leases_of(path), 2)
    waiting = waiter.acquire()
    observer.wait_queue(turns_of(path), 1 if ahead is None else 2)
    observer.wait_queue(leases_of(path), 2)
    proxy.cut()
    holder.release()
    if ahead is not None:
        ahead.expect("acquired")
        holder.release("b", owner="b")
    waiting.expect("acquired")
    waiter.release()
    assert_clean(holder.holds() + waiter.holds(), at_least=2)
    all_free(observer, path)
