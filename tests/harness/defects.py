"""Histories in which peers went wrong.

The scenarios say what must come of them here, `unit/test_peer_defects.py` what comes of the peers, and
scenarios.md has a table of both.
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

# A client gives up its session after 7/5 of the time-out at the latest. A server that was away for longer,
# and takes a while to start, does not know, and keeps the session and its nodes for another time-out.
OUTAGE = 1.4

SHORTLY = 1.0
"""Seconds within which something would happen, if it were going to."""

REVOKE = b"__REVOKE__"


@dataclass(frozen=True)
class Replaced:
    """What becomes of a contender whose session was replaced, and of one that waits behind it."""

    worker: Worker
    # For a lock that another client held at the time.
    waiting: Pending
    # For the lock at `created`: the node was created, but the reply was lost with the session.
    creating: Pending
    created: str
    last: Worker
    behind: Pending


def replace_session(
    start: Start, name: str, server: Standalone, proxy: Proxy, path: str, session_timeout: float
) -> Replaced:
    """CURATOR-604, CURATOR-498: nodes of the old session still exist when there is a new one.

    The lock at `awaited` was held, and is not any longer.
    """
    awaited, created = f"{path}/awaited", f"{path}/created"
    worker = user(start, name, proxy.hosts, awaited, session_timeout=session_timeout)
    worker.lock(created, lock="created")
    # Waits the outage out.
    last = user(start, "rust", server.hosts, awaited, session_timeout=15)
    with Observer(server.hosts) as observer:
        observer.create(created)
        observer.create(awaited)
        # Its session does not matter.
        holder = observer.client.create(f"{awaited}/x-lock-", sequence=True)
        waiting, behind = line_up(observer, awaited, [worker, last])
    drop = proxy.drop_reply("create2")
    # Otherwise the client might be back before the outage, and find its node.
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
    """The node of the dying session was not taken for one of the new session."""
    # Curator reports the name without the path.
    node = replaced.creating.expect("acquired")["node"].rsplit("/", 1)[-1]
    with Observer(server.hosts) as observer:
        observer.wait(replaced.created, lambda queue: queue == [node], "queue without the old node")
        assert observer.owner(f"{replaced.created}/{node}") == proxy.newest_session()
    replaced.worker.release("created", owner="creator")


def over(
    start: Start, name: str, how: str, hosts: str, proxy: Proxy, observer: Observer, path: str
) -> tuple[Worker, Worker]:
    """Curator's isAcquiredInThisProcess, kazoo 282. One held the lock and lost it, and the other holds it."""
    observer.create(path)
    holder = user(start, name, proxy.hosts, path)
    other = user(start, "rust", hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    session = holder.sessions["c"]
    if how == "session":
        # It must not race with the kill for its session.
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
    """Whether the owner holds, as the worker sees it; None if it cannot be asked."""
    value: bool | None = worker.send("owned", lock="m", owner="a").line().get("value")
    return value


def halves(
    start: Start, name: str, server: Standalone, observer: Observer, path: str
) -> tuple[list[Worker], list[Pending]]:
    """Two contenders want both of two permits, and queue for their turns before the first turn comes."""
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
    """An acquire is cancelled after it has long been granted and released."""
    worker = user(start, name, hosts, path)
    asked = worker.acquire()
    asked.expect("acquired")
    worker.release()
    # kazoo cancels by the lock object, Node by the signal that the acquire was given.
    worker.call("cancel", target=asked.id)
    return worker


def revoked_before_the_watch(worker: Worker, lock: str, proxy: Proxy, observer: Observer, path: str) -> None:
    """Asked to give up a lock whose node was just created and not yet watched; then it gets the lock."""
    trap = proxy.black_hole_behind("create2")
    asked = worker.acquire(lock=lock)
    trap.wait()
    (node,) = observer.wait_queue(path, 1)
    observer.client.set(f"{path}/{node}", REVOKE)
    proxy.heal()
    asked.expect("acquired")
