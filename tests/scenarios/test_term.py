"""If a holder receives no replies, its lease is first suspended, and then lost before the next grant."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.stalls import STALL_MONITOR
from harness.steps import (
    Start,
    assert_granted_later,
    await_loss,
    contest,
    eventually,
    line_up,
    user,
    watch_losses,
)
from harness.traffic import Flight
from harness.worker import Worker

HEARTBEATS = 4
HEARTBEAT = "multi"
SESSION_EXPIRED = -112


def state(worker: Worker, lease: str = "l") -> str:
    """Return the current state of a lease."""
    return str(worker.call("state", lease=lease)["value"])


def heartbeats(proxy: Proxy, worker: Worker) -> list[Flight]:
    """Return the heartbeats of a worker since the last reset, including those on its closed connections."""
    number = proxy.session_connections[worker.sessions["c"]]
    flights = proxy.snapshot().flights
    return [flight for flight in flights if flight.connection == number and HEARTBEAT in flight.requests]


def assert_pause(one: float, other: float, wanted: float) -> None:
    """Assert that the second heartbeat was sent `wanted` seconds after the first, by the proxy's clock.

    The worker has a clock of its own, so the assertion has a tolerance.
    """
    stalled_seconds = STALL_MONITOR.stalled_seconds(int(one * 1e9), int(other * 1e9))
    # The pause starts when a heartbeat is sent, so slow replies do not lengthen it.
    assert 0.9 * wanted <= other - one <= 1.2 * wanted + stalled_seconds


@pytest.mark.parametrize("locks", [4, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.parametrize("run", [0, *(pytest.param(run, marks=pytest.mark.soak) for run in range(1, 5))])
def test_s200_lost_before_the_next_grant(
    surface: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
    locks: int,
    run: int,
) -> None:
    holder, other = start(surface), start(surface)
    holder.connect(proxy.hosts, session_timeout=4)
    other.connect(server.hosts)
    waiting = contest(observer, path, holder, other, locks)
    proxy.black_hole()
    lost = watch_losses(holder, waiting)
    assert_granted_later(lost, other, waiting)
    proxy.heal()
    for lease in waiting:
        observer.wait_queue(f"{path}/{lease}", 0)


def test_s201_held_again(surface: str, proxy: Proxy, observer: Observer, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path, session_timeout=9)
    held = worker.hold()
    proxy.black_hole()
    eventually(lambda: state(worker) == "suspended", "the holder notices", timeout=10)
    assert worker.check().expect("value")["value"] == "held"
    proxy.heal()
    eventually(lambda: state(worker) == "held", "the holder hears from the server", timeout=10)
    assert [held["node"]] == [f"{path}/{node}" for node in observer.queue(path)]
    worker.release()
    observer.assert_free(path)


def test_s202_what_the_heartbeat_costs(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    session_timeout = 6.0
    # Three contenders are ahead of the last one. It will not get the lock soon, so it sends no heartbeats.
    holder, *others, last = (
        user(start, surface, proxy.hosts, path, session_timeout=session_timeout) for _ in range(4)
    )
    holder.hold()
    waiting = line_up(observer, path, [*others, last])
    # By the second heartbeat all watches are set, including the holder's watch on its own node.
    eventually(lambda: len(heartbeats(proxy, holder)) >= 2, "the heartbeat begins")
    proxy.reset()
    eventually(lambda: len(heartbeats(proxy, holder)) > HEARTBEATS, "the heartbeat continues", timeout=20)
    for worker in (holder, *others):
        beats = heartbeats(proxy, worker)
        assert len(beats) >= HEARTBEATS
        for beat, next_beat in pairwise(beats):
            assert beat.requests == [HEARTBEAT]
            assert_pause(beat.opened, next_beat.opened, session_timeout / 6)
    assert not heartbeats(proxy, last)
    assert set(proxy.snapshot().requests) == {HEARTBEAT}
    for worker, pending in zip([holder, *others], waiting, strict=True):
        worker.release()
        pending.expect("acquired")
    last.release()


def test_s203_a_turn_that_came_while_disconnected(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path)
    waiter = user(start, surface, proxy.hosts, path, session_timeout=8)
    waiter.lock(f"{path}/other", lock="other")
    # The loss of this lease shows when the waiter's term is over.
    waiter.hold("lost", lock="other", owner="b")
    holder.hold()
    waiting = waiter.acquire()
    queue = observer.wait_queue(path, 2)
    proxy.black_hole()
    holder.release()
    eventually(lambda: state(waiter, "lost") == "lost", "the waiter's term ends", timeout=10)
    assert not waiting.done
    proxy.heal()
    granted = waiting.expect("acquired")
    assert any(granted["node"] == f"{path}/{node}" for node in queue), "its place in the queue was kept"
    observer.wait_queue(f"{path}/other", 0)
    waiter.release()


def test_s204_the_heartbeat_misses_a_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path, session_timeout=4)
    worker.hold(owner="a")
    waiting = worker.acquire("next", owner="b")
    holders, waiters = observer.wait_queue(path, 2)
    # The holder belongs to the same client, so the client notifies the waiter itself and sets no watch. Only
    # a heartbeat can detect that the waiter's node is gone.
    observer.delete(f"{path}/{waiters}")
    queue = observer.wait(path, lambda nodes: len(nodes) == 2 and waiters not in nodes, "a new node")
    assert queue[0] == holders
    worker.release(owner="a")
    assert waiting.expect("acquired")["node"].endswith(queue[1])
    worker.release("next", owner="b")
    observer.assert_free(path)


def test_s205_a_lost_lease_leaves_the_queue(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path, session_timeout=8)
    worker.hold()
    session = worker.sessions["c"]
    proxy.black_hole()
    eventually(lambda: state(worker) == "lost", "the term ends", timeout=10)
    (node,) = observer.queue(path)
    proxy.heal()
    # The client itself deletes the node, long before the session timeout. The owner does not release the
    # lock.
    observer.wait_queue(path, 0)
    again = worker.hold("again")
    assert int(again["session"]) == session, "the session was kept"
    assert not again["node"].endswith(node)
    assert state(worker) == "lost", "a lost lease stays lost"
    worker.release("again")


def test_s250_a_refused_heartbeat(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, other = start(surface), start(surface)
    holder.connect(proxy.hosts, session_timeout=9)
    other.connect(server.hosts)
    waiting = contest(observer, path, holder, other, 4)
    proxy.refuse_transactions(SESSION_EXPIRED)
    for lease in waiting:
        # The lease is lost at the next heartbeat, before its term ends.
        await_loss(holder, lease, timeout=9 / 3)
    proxy.refuse_transactions(0)
    # The client closes the old session before it starts the next one, although the server still accepts the
    # old one.
    for lease, pending in waiting.items():
        pending.expect("acquired", 9)
        other.release(lease, owner=lease)
    session = holder.sessions["c"]
    again = holder.hold("again", lock="l0", owner="again")
    assert int(again["session"]) != session
    holder.release("again", owner="again")
