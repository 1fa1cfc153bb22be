"""Situations in which other lock clients misbehaved.

The scenarios assert that zklock behaves correctly in these situations. `unit/test_peer_defects.py` asserts
that the other clients still misbehave. A table in scenarios.md lists both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from harness.observer import Observer
from harness.permits import counting, leases_of, turns_of
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually, line_up, user
from harness.worker import Pending, Worker

# Duration of an outage, in session timeouts. By the end of the outage, the client has given up its session.
# The restarted server keeps the session and its nodes for another timeout.
OUTAGE = 1.4

SHORTLY = 1.0
"""Time in seconds to wait for an event that must not happen."""

REVOKE = b"__REVOKE__"


@dataclass(frozen=True)
class Replaced:
    """A contender whose session was replaced by a new one, and a contender that waits behind it."""

    worker: Worker
    # Waits for a lock that another client holds.
    waiting: Pending
    # Pending acquire of the lock at `created`. The server created the node in the old session, but the reply
    # was lost.
    creating: Pending
    created: str
    last: Worker
    behind: Pending


def replace_session(
    start: Start, name: str, server: Standalone, proxy: Proxy, path: str, session_timeout: float
) -> Replaced:
    """Replace a client's session while the nodes of the old session still exist (CURATOR-604, CURATOR-498).

    Then delete the node of the lock's holder, so that the client's waiter is next.
    """
    awaited, created = f"{path}/awaited", f"{path}/created"
    worker = user(start, name, proxy.hosts, awaited, session_timeout=session_timeout)
    worker.lock(created, lock="created")
    # Its session timeout is longer than the outage.
    last = user(start, "rust", server.hosts, awaited, session_timeout=15)
    with Observer(server.hosts) as observer:
        observer.create(created)
        observer.create(awaited)
        # The test does not use the session of this holder.
        holder = observer.client.create(f"{awaited}/x-lock-", sequence=True)
        waiting, behind = line_up(observer, awaited, [worker, last])
    drop = proxy.drop_reply("create2")
    # Do not let the client reconnect before the outage. In the old session, it would find the node.
    proxy.refuse_new()
    creating = worker.acquire("created", lock="created", owner="creator")
    drop.wait()
    known = proxy.newest_session()
    server.kill()
    time.sleep(OUTAGE * session_timeout)
    server.start()
    proxy.accept()
    eventually(lambda: proxy.newest_session() != known, "a new session", 10)
    with Observer(server.hosts) as observer:
        observer.delete(holder)
    return Replaced(worker, waiting, creating, created, last, behind)


def assert_created_anew(replaced: Replaced, server: Standalone, proxy: Proxy) -> None:
    """Assert that an acquire in the new session created a node and did not use the old session's node."""
    # Curator reports the name without the path.
    node = replaced.creating.expect("acquired")["node"].rsplit("/", 1)[-1]
    with Observer(server.hosts) as observer:
        observer.wait(replaced.created, lambda queue: queue == [node], "queue without the old node")
        assert observer.owner(f"{replaced.created}/{node}") == proxy.newest_session()
    replaced.worker.release("created", owner="creator")


def lose_and_hand_over(
    start: Start, name: str, how: str, hosts: str, proxy: Proxy, observer: Observer, path: str
) -> tuple[Worker, Worker]:
    """Let one worker lose its lock and another acquire it.

    In this situation, Curator's `isAcquiredInThisProcess` and kazoo (issue 282) misreport the holder.
    """
    observer.create(path)
    holder = user(start, name, proxy.hosts, path)
    other = user(start, "rust", hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    session = holder.sessions["c"]
    if how == "session":
        # The worker must not reconnect before its session is closed.
        proxy.refuse()
        observer.kill_session(session, proxy.passwords[session])
        proxy.accept()
    else:
        observer.delete(f"{path}/{observer.queue(path)[0]}")
    waiting.expect("acquired")
    if how == "session":
        eventually(lambda: proxy.newest_session() != session, "a new session", 10)
    return holder, other


def owned(worker: Worker) -> bool | None:
    """Return whether a lock object reports that its owner holds the lock, or None if it reports nothing."""
    value: bool | None = worker.send("owned", lock="m", owner="a").line().get("value")
    return value


def queue_for_two_permits_each(
    start: Start, name: str, server: Standalone, observer: Observer, path: str
) -> tuple[list[Worker], list[Pending]]:
    """Let two contenders each ask for both permits of a semaphore.

    Both first wait for the semaphore's internal lock (the turn).
    """
    for directory in (leases_of(path), turns_of(path)):
        observer.create(directory)
    workers = [counting(start, name, server.hosts, path, 2) for _ in range(2)]
    turn = observer.client.create(f"{turns_of(path)}/x-lock-", sequence=True)
    asked = []
    for place, worker in enumerate(workers, start=2):
        asked.append(worker.acquire(count=2))
        observer.wait_queue(turns_of(path), place)
    observer.delete(turn)
    return workers, asked


def cancelled_idle(start: Start, name: str, hosts: str, path: str) -> Worker:
    """Cancel an acquire that was granted and released long ago."""
    worker = user(start, name, hosts, path)
    asked = worker.acquire()
    asked.expect("acquired")
    worker.release()
    # A kazoo worker calls the lock object's `cancel`. A Node worker aborts the signal passed to the acquire.
    worker.call("cancel", target=asked.id)
    return worker


def revoked_before_the_watch(worker: Worker, lock: str, proxy: Proxy, observer: Observer, path: str) -> None:
    """Ask a worker to give up a lock before it watches the node that it has created."""
    trap = proxy.black_hole_behind("create2")
    asked = worker.acquire(lock=lock)
    trap.wait()
    (node,) = observer.wait_queue(path, 1)
    observer.client.set(f"{path}/{node}", REVOKE)
    proxy.heal()
    asked.expect("acquired")
