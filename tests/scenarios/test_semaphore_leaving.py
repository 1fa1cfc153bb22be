"""A semaphore's contender that stops waiting or loses its permits leaves no node and no taken permit."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import all_free, counting, leases_of, turns_of
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_took, assert_within, await_loss, nothing_watched

SESSION = 2.0
TIMEOUT = 0.5


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
    assert_took(line, leaving.sent, TIMEOUT)
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
    assert_within(waiting.expect("acquired"), holder.killed, SESSION + 2)
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
    # The end of the session freed the permit that `loser` held. The waiter of the same client gets this
    # permit in a new session.
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
    observer.wait(
        leases_of(path), lambda nodes: len(nodes) == 3 and mine[0] not in nodes, "queue with a new node"
    )
    # When the waiter loses its node in the semaphore's queue, it deletes its permit nodes and queues again
    # behind the rival.
    competing = rival.acquire("r", count=2)
    (turn, behind) = observer.wait_queue(turns_of(path), 2)
    observer.delete(f"{turns_of(path)}/{turn}")
    observer.wait(
        turns_of(path), lambda nodes: nodes[:1] == [behind] and len(nodes) == 2, "queue with a new turn"
    )
    observer.wait_queue(leases_of(path), 3)
    holder.release()
    competing.expect("acquired")
    assert not waiting.done
    rival.release("r")
    waiting.expect("acquired")
    waiter.release("w")
    assert_clean([hold for worker in (holder, waiter, rival) for hold in worker.holds()], at_least=5)
    all_free(observer, path)


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
