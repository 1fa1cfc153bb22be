"""Tests that reproduce known defects of other lock libraries (peers).

They show that the scenarios would find the same defects in zklock. A few defects are fixed in the installed
version. The tests of these defects check the fix. scenarios.md has a table of the defects.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns

import pytest

from harness.defects import (
    REVOKE,
    SHORTLY,
    assert_created_anew,
    cancelled_idle,
    lose_and_hand_over,
    owned,
    queue_for_two_permits_each,
    replace_session,
    revoked_before_the_watch,
)
from harness.history import assert_clean, overlaps
from harness.observer import Observer, sequence, watched_by
from harness.permits import counting, leases_of, turns_of
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import SOON, Settings, Standalone
from harness.steps import Start, eventually, line_up, queue_up, user
from harness.worker import Pending, Unanswered, Worker

ends = pytest.mark.parametrize("how", ["session", "node"])


@pytest.fixture(scope="module")
def killable() -> Iterator[Standalone]:
    """Provide a server that tests can kill."""
    with Standalone() as standalone:
        yield standalone


@pytest.fixture
def killable_proxy(killable: Standalone) -> Iterator[Proxy]:
    """Provide a proxy in front of the killable server."""
    with Proxy(killable.hosts) as made:
        yield made


def test_curator_604_and_498(killable: Standalone, killable_proxy: Proxy, path: str, start: Start) -> None:
    # The client reconnects after three seconds. Its old nodes must exist until then.
    replaced = replace_session(start, "curator", killable, killable_proxy, path, 3)
    # The waiter acquires the lock with its old session's node, which is deleted when that session expires.
    replaced.waiting.expect("acquired")
    replaced.behind.expect("acquired")
    found = overlaps(replaced.worker.holds() + replaced.last.holds())
    assert len(found) == 1, "CURATOR-604 is fixed"
    # CURATOR-498 is fixed.
    assert_created_anew(replaced, killable, killable_proxy)


@ends
def test_curator_reenters_after_its_hold_has_ended(
    how: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, other = lose_and_hand_over(start, "curator", how, server.hosts, proxy, observer, path)
    assert owned(holder)
    # The holder enters its lock again without a request to the server, although the other client now holds
    # the lock.
    holder.hold("again")
    assert other.check().expect("value")["value"] == "held"
    assert len(observer.queue(path)) == 1


@ends
def test_kazoo_282_on_kazoo(
    how: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, other = lose_and_hand_over(start, "kazoo", how, server.hosts, proxy, observer, path)
    assert owned(holder)
    other.release()
    # The lock is free, but the client sends no request for it.
    again = holder.acquire("again")
    with pytest.raises(Unanswered):
        again.line(SHORTLY)
    observer.assert_free(path)


def test_kazoo_cancels_the_next_acquire(
    server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = cancelled_idle(start, "kazoo", server.hosts, path)
    assert worker.acquire().line()["event"] == "cancelled"


def test_kazoo_732_on_kazoo(
    server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder, last = (user(start, "rust", server.hosts, path) for _ in range(2))
    leaver = user(start, "kazoo", proxy.hosts, path)
    holder.hold()
    # The lock is taken, so the try fails. The client deletes the node that the try created, and waits for the
    # reply.
    trap = proxy.black_hole_behind("getChildren")
    leaving = leaver.send("try", lock="m", lease="l", owner="a")
    trap.wait()
    eventually(lambda: proxy.snapshot().requests["delete"] > 0, "the delete is on its way")
    proxy.cut()
    proxy.heal()
    leaving.expect("busy")
    holder.release()
    # The leaver's node exists as long as its session.
    last.acquire(timeout=SHORTLY).expect("timeout")
    observer.wait_queue(path, 1)


# A waiter is interrupted: kazoo 732 (in the form that users report), CURATOR-45, 79, 205, 462. zklock's
# scenarios for this: S9, S10, S91.


def interrupted(
    start: Start, name: str, server: Standalone, observer: Observer, path: str
) -> tuple[Worker, Pending]:
    """Interrupt a waiter, release the lock, and let the next waiter acquire it."""
    observer.create(path)
    holder, last = (user(start, "rust", server.hosts, path) for _ in range(2))
    leaver = user(start, name, server.hosts, path)
    holder.hold()
    (leaving,) = line_up(observer, path, [leaver], owner="main")
    eventually(lambda: bool(watched_by(server, leaver.sessions["c"], path)), "the contender waits")
    if name == "kazoo":
        leaver.interrupt()
    else:
        leaver.cancel(leaving)
    leaving.expect("cancelled")
    holder.release()
    return last, last.acquire(timeout=SHORTLY)


def test_kazoo_leaves_an_orphan_when_interrupted(
    server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    _last, asked = interrupted(start, "kazoo", server, observer, path)
    asked.expect("timeout")
    observer.wait_queue(path, 1)


def test_curator_79_is_fixed(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    last, asked = interrupted(start, "curator", server, observer, path)
    asked.expect("acquired")
    last.release()
    observer.assert_free(path)


def test_curator_462_is_fixed(
    server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = counting(start, "rust", server.hosts, path, 1)
    leaver = counting(start, "curator", proxy.hosts, path, 1)
    holder.hold()
    leaving = leaver.acquire()
    observer.wait_queue(leases_of(path), 2)

    def waits() -> bool:
        last = proxy.snapshot().flights[-1]
        return last.requests[-1].startswith("getChildren") and last.closed is not None

    eventually(waits, "the waiter has noticed that it must wait")
    leaver.cancel(leaving)
    leaving.expect("cancelled")
    observer.wait_queue(leases_of(path), 1)
    observer.wait_queue(turns_of(path), 0)


# Curator's contenders acquire the semaphore's mutex again for each single permit. zklock's scenario for this:
# S88.


def test_curator_callers_each_keep_half_of_the_permits(
    server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    _workers, asked = queue_for_two_permits_each(start, "curator", server, observer, path)
    # Each contender has one permit. The first one holds the mutex and waits for another permit. The second
    # one waits for the mutex.
    observer.wait_queue(leases_of(path), 3)
    observer.wait_queue(turns_of(path), 2)
    for pending in asked:
        with pytest.raises(Unanswered):
            pending.line(SHORTLY / 2)


# kazoo 649: a reader waits between two writers. zklock's scenarios for this: S58, S59.


def test_kazoo_649_is_fixed(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    observer.create(path)
    workers = [readwriter(start, "kazoo", server.hosts, path) for _ in range(3)]
    waiting = queue_up(observer, path, list(zip(workers, "wrw", strict=True)))
    for worker, pending in zip(workers, waiting, strict=True):
        pending.expect("acquired")
        worker.release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=3)


def test_curator_misses_revocations(proxy: Proxy, observer: Observer, path: str, start: Start) -> None:
    worker = start("curator")
    worker.connect(proxy.hosts)
    for name in ("early", "twice"):
        observer.create(f"{path}/{name}")
        worker.lock(f"{path}/{name}", lock=name, revocable=True)
    revoked_before_the_watch(worker, "early", proxy, observer, f"{path}/early")
    # Curator notifies the first acquire, but not the second: S142.
    for lease in ("first", "second"):
        node = worker.hold(lease, lock="twice")["node"]
        observer.client.set(f"{path}/twice/{node}", REVOKE)
        if lease == "first":
            worker.wait_line("revoked", lock="twice")
            worker.release(lease)
    with pytest.raises(Unanswered):
        worker.wait_line("revoked", SHORTLY, lock="early")
    assert [line["lock"] for line in worker.history if line["event"] == "revoked"] == ["twice"]


# Curator: an owner waits for a lock that it holds itself. zklock's scenarios for this: S5, S61.


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        pytest.param("mutex", "mutex", id="second_object"),
        pytest.param("read", "write", id="upgrade"),
    ],
)
def test_curator_waits_for_itself(
    held: str, wanted: str, server: Standalone, path: str, start: Start
) -> None:
    worker = start("curator")
    worker.connect(server.hosts)
    worker.lock(path, lock="held", kind=held)
    worker.lock(path, lock="wanted", kind=wanted)
    worker.hold(lock="held")
    worker.acquire("again", lock="wanted", timeout=SHORTLY).expect("timeout")


# Timeouts while the server is away. zklock's scenario for this: S20.


def test_peers_do_not_keep_time_outs(
    server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    with Proxy(server.hosts) as silent:
        asked = []
        for name in ("curator", "kazoo"):
            for away in (proxy, silent):
                worker = start(name)
                # The retry policy of Curator's own examples.
                worker.connect(away.hosts, retries=3)
                worker.lock(path)
                asked.append(worker)
        proxy.refuse()
        silent.black_hole()
        waiting = [worker.acquire(timeout=SHORTLY) for worker in asked]
        for pending in waiting:
            with pytest.raises(Unanswered):
                pending.line(max(0.0, (pending.sent - monotonic_ns()) / 1e9 + 3 * SHORTLY))


# Sequence numbers restart when the parent is created again, so they cannot serve as fencing tokens. zklock's
# scenario for this: S16.


def test_sequence_numbers_restart(path: str, start: Start) -> None:
    numbers, czxids = [], []
    with Standalone(Settings(container_check=SOON)) as reaping, Observer(reaping.hosts) as observer:
        worker = user(start, "curator", reaping.hosts, path)
        for lease in ("first", "second"):
            held = worker.hold(lease)
            numbers.append(sequence(held["node"]))
            czxids.append(int(held["token"]))
            worker.release(lease)
            observer.wait_gone(path)
    assert numbers == [0, 0]
    assert czxids[0] < czxids[1]
