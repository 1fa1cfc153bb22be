"""Many clients that wait for one idle lock cause few requests when they reconnect."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually, user
from harness.traffic import Counts
from harness.worker import first_answered

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


def listings(counts: Counts) -> int:
    """Return the number of directory listings."""
    return counts.requests["getChildren"] + counts.requests["getChildren2"]


def returned(counts: Counts) -> int:
    """Return the number of clients that have set their watches again."""
    return counts.requests["setWatches"] + counts.requests["setWatches2"]


def test_s650_many_waiters_that_reconnect_do_not_list_the_queue(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder = user(start, surface, server.hosts, path, session_timeout=SESSION_TIMEOUT)
    holder.hold()
    crowd = start(surface)
    names = [str(number) for number in range(CLIENTS)]
    waiting = {}
    for name in names:
        crowd.connect(proxy.hosts, client=name, session_timeout=SESSION_TIMEOUT)
        crowd.lock(path, lock=name, client=name)
        waiting[crowd.acquire(name, lock=name, owner=name)] = name
        observer.wait_queue(path, len(waiting) + 1)

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
    while waiting:
        for pending in first_answered(waiting):
            pending.expect("acquired")
            crowd.release(waiting[pending], owner=waiting.pop(pending))
    assert listings(proxy.snapshot()) >= CLIENTS - NEAR - 1
    assert_clean(holder.holds() + crowd.holds(), at_least=CLIENTS + 1)
    observer.wait_queue(path, 0)
