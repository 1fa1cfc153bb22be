"""Tests of many clients that reconnect at the same time, and of many waiters or holds in one client."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, nothing_watched, user
from harness.worker import Worker, first_answered

CLIENTS = 40
SESSION_TIMEOUT = 1.0

# Duration of the outage in seconds. By its end, all clients have given up their sessions, and the pauses
# between their connection attempts have reached the maximum.
OUTAGE = 4.0
# Maximum number of connection attempts of each client. The pauses between attempts double, from 50 ms to a
# second.
ATTEMPTS = 20

# Connection attempts within this time in seconds count as simultaneous. If all clients paused for the same
# time, all attempts would be simultaneous.
AT_ONCE = 0.1
MOST = 0.75

# Maximum numbers of requests per waiter. To queue, a waiter creates a node and lists the queue. To leave, it
# deletes the node. The new first waiter then lists the queue and sets two watches. Waiters that join or leave
# together share the listings.
TO_QUEUE = 2
TO_RELEASE = 1
TO_LEAVE = 4
# Maximum number of other requests: heartbeats, and requests of the first waiter. It does not depend on the
# number of waiters.
FEW = 50
# Maximum number of bytes per waiter, including the stack of a thread in Python.
MEMORY = 64 * 1024
# Number of locks that one client holds, and maximum number of bytes for each of them. The first locks are not
# measured: they enlarge collections that all locks share.
HELD = 10_000
FIRST = 100
HELD_MEMORY = 3 * 1024
PATIENCE = 300.0

crowds = pytest.mark.parametrize(
    "waiters", [1_000, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(2 * PATIENCE)])]
)


def most_simultaneous(arrivals: list[float]) -> int:
    """Return the largest number of attempts that arrived at the same time."""
    return max(sum(since <= other < since + AT_ONCE for other in arrivals) for since in arrivals)


def test_s237_many_clients_reconnect(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder = user(start, surface, server.hosts, path, session_timeout=30)
    crowd = start(surface)
    names = [str(number) for number in range(CLIENTS)]
    for name in names:
        crowd.connect(proxy.hosts, client=name, session_timeout=SESSION_TIMEOUT)
        crowd.lock(path, lock=name, client=name)
    holder.hold()
    waiting = {crowd.acquire(name, lock=name, owner=name): name for name in names}
    observer.wait_queue(path, CLIENTS + 1)
    proxy.reset()
    proxy.accept_and_close()
    ends = time.monotonic() + OUTAGE
    observer.wait_queue(path, 1)
    time.sleep(max(0.0, ends - time.monotonic()))
    arrivals = proxy.snapshot().arrivals
    proxy.reset()
    proxy.accept()
    observer.wait_queue(path, CLIENTS + 1)
    returns = proxy.snapshot().arrivals
    assert CLIENTS < len(arrivals) <= ATTEMPTS * CLIENTS
    # All sessions were given up at the same time.
    late = [arrival for arrival in arrivals if arrival > ends - 1]
    assert most_simultaneous(late) <= MOST * CLIENTS
    # Each client closes its old session before it requests a new one.
    assert len(returns) <= 3 * CLIENTS
    assert most_simultaneous(returns) <= MOST * len(returns)
    holder.release()
    while waiting:
        for pending in first_answered(waiting):
            pending.expect("acquired")
            crowd.release(waiting[pending], owner=waiting.pop(pending))
    assert_clean(holder.holds() + crowd.holds(), at_least=CLIENTS + 1)
    observer.wait_queue(path, 0)


def memory(worker: Worker) -> int:
    """Return the bytes of memory that a worker uses."""
    (line,) = [
        line for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines() if "VmRSS" in line
    ]
    return int(line.split()[1]) * 1024


@crowds
def test_s238_many_waiters_are_granted(
    surface: str, waiters: int, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = start(surface)
    worker.connect(proxy.hosts, session_timeout=30)
    ahead = observer.client.create(f"{path}/x-lock-", sequence=True)
    before = memory(worker)
    proxy.reset()
    asked = worker.contend(path, owners=waiters, rounds=1, objects="shared")
    observer.wait_queue(path, waiters + 1, PATIENCE)
    assert proxy.snapshot().total <= TO_QUEUE * waiters + FEW
    assert memory(worker) - before <= waiters * MEMORY
    proxy.reset()
    observer.delete(ahead)
    asked.expect("done", PATIENCE)
    assert proxy.snapshot().total <= TO_RELEASE * waiters + FEW
    assert_clean(worker.holds(), at_least=waiters)
    observer.assert_free(path)
    nothing_watched(server, worker, path)


@crowds
def test_s238_many_waiters_time_out(
    surface: str, waiters: int, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    observer.client.create(f"{path}/x-lock-", sequence=True)
    proxy.reset()
    owners = [str(number) for number in range(waiters)]
    asked = [worker.acquire(owner, owner=owner, timeout=waiters / 250) for owner in owners]
    observer.wait(path, lambda queue: len(queue) > waiters / 2, "crowd")
    for pending in asked:
        pending.expect("timeout", PATIENCE)
    observer.wait_queue(path, 1)
    assert proxy.snapshot().total <= (TO_QUEUE + TO_LEAVE) * waiters + FEW
    nothing_watched(server, worker, path)


def test_s868_memory_of_held_locks(surface: str, server: Standalone, path: str, start: Start) -> None:
    worker = start(surface)
    worker.connect(server.hosts, session_timeout=30)
    worker.hold_many(path, 0, FIRST).expect("done", PATIENCE)
    before = memory(worker)
    worker.hold_many(path, FIRST, HELD).expect("done", PATIENCE)
    assert HELD * 500 < memory(worker) - before <= HELD * HELD_MEMORY
