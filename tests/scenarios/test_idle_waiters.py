"""Many clients wait for one lock for a long time. Few requests follow a reconnection or a release."""

from __future__ import annotations

import time

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually, user
from harness.traffic import Counts
from harness.worker import Pending, Worker, first_answered

CLIENTS = 40
SESSION_TIMEOUT = 30.0

# Number of waiters directly behind the holder. They can be granted the lock soon, so each lists the directory
# once after it reconnects.
NEAR = 2
# Number of watches. Each waiter watches its own node and the two nodes ahead of it. The first waiter has only
# one node ahead of it.
WATCHES = 3 * CLIENTS - 1
# Maximum number of bytes of replies per client, which is less than half the size of one listing.
BYTES = 1024

# Number of waiters, and the session timeout, of the hand-offs after a long hold.
WAITERS = 8
HEARTBEAT = "multi"
SHORT_TIMEOUT = 4.0
# Delay of the proxy in each direction, in seconds.
EACH_WAY = 0.05


def listings(counts: Counts) -> int:
    """Return the number of directory listings."""
    return counts.requests["getChildren"] + counts.requests["getChildren2"]


def returned(counts: Counts) -> int:
    """Return the number of clients that have set their watches again."""
    return counts.requests["setWatches"] + counts.requests["setWatches2"]


def queue_clients(
    crowd: Worker, proxy: Proxy, observer: Observer, path: str, count: int, session_timeout: float
) -> dict[Pending, str]:
    """Let many clients of a worker wait for a lock, in order. Return their acquires and their names."""
    waiting: dict[Pending, str] = {}
    for name in map(str, range(count)):
        crowd.connect(proxy.hosts, client=name, session_timeout=session_timeout)
        crowd.lock(path, lock=name, client=name)
        waiting[crowd.acquire(name, lock=name, owner=name)] = name
        observer.wait_queue(path, len(waiting) + 1)
    return waiting


def hand_on(crowd: Worker, waiting: dict[Pending, str]) -> None:
    """Release each lock as soon as it is acquired."""
    while waiting:
        for pending in first_answered(waiting):
            pending.expect("acquired")
            crowd.release(waiting[pending], owner=waiting.pop(pending))


def test_s650_many_waiters_that_reconnect_do_not_list_the_queue(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder = user(start, surface, server.hosts, path, session_timeout=SESSION_TIMEOUT)
    holder.hold()
    crowd = start(surface)
    waiting = queue_clients(crowd, proxy, observer, path, CLIENTS, SESSION_TIMEOUT)

    def settled() -> bool:
        counts = proxy.snapshot()
        answered = all(flight.closed is not None for flight in counts.flights)
        return counts.requests["getData"] >= WATCHES and answered

    eventually(settled, "all waiters have set their watches")
    proxy.reset()
    assert proxy.cut() >= CLIENTS
    eventually(lambda: returned(proxy.snapshot()) >= CLIENTS, "all clients are back")
    eventually(lambda: listings(proxy.snapshot()) >= NEAR, "the near waiters have listed the directory")
    counts = proxy.snapshot()
    assert listings(counts) == NEAR
    assert counts.requests["sync"] == NEAR
    # Each client checks a few nodes at most once.
    assert counts.requests["multiRead"] <= CLIENTS
    assert counts.received <= CLIENTS * BYTES
    # Each waiter lists the directory before it is granted the lock.
    proxy.reset()
    holder.release()
    hand_on(crowd, waiting)
    assert listings(proxy.snapshot()) >= CLIENTS - NEAR - 1
    assert_clean(holder.holds() + crowd.holds(), at_least=CLIENTS + 1)
    observer.wait_queue(path, 0)


def test_s867_handoffs_after_a_long_hold(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    """A waiter whose term has ended sends a heartbeat with its first request after an event.

    If it sent the heartbeat after the reply to that request, its grant would take another round trip.
    """
    observer.create(path)
    holder = user(start, surface, server.hosts, path)
    holder.hold()
    crowd = start(surface)
    waiting = queue_clients(crowd, proxy, observer, path, WAITERS, SHORT_TIMEOUT)
    names = list(waiting.values())
    connection = {name: proxy.session_connections[crowd.sessions[name]] for name in names}

    def without_term() -> bool:
        """Return whether the far waiters have been silent for so long that their terms have ended."""
        far = {connection[name] for name in names[NEAR:]}
        flights = [flight for flight in proxy.snapshot().flights if flight.connection in far]
        silent = time.monotonic() - SHORT_TIMEOUT / 2
        return all(flight.closed is not None and flight.closed < silent for flight in flights)

    eventually(without_term, "the terms of the far waiters are over")
    proxy.delay = EACH_WAY
    proxy.reset()
    holder.release()
    hand_on(crowd, waiting)
    flights = proxy.snapshot().flights
    for name in names[NEAR:]:
        sent = [flight.requests for flight in flights if flight.connection == connection[name]]
        assert HEARTBEAT in sent[0], sent
    assert_clean(holder.holds() + crowd.holds(), at_least=WAITERS + 1)
