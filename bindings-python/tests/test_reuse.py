"""Objects can be used again after a loss, a timeout or a cancellation, and closed or observed repeatedly."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

import zklock
from zklock import aio
from zklock.testing import Server

LIMIT = 30.0
BRIEF = 0.3

ENDS = ("released", "broken", "expired", "held too long", "revoked", "timed out", "cancelled")


@pytest.fixture
def embedded() -> Iterator[Server]:
    """Provide a server for a single test."""
    with Server() as made:
        yield made


def until(done: Callable[[], object]) -> None:
    """Wait until `done` returns a true value."""
    deadline = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def nodes(server: Server) -> list[str]:
    """Return the nodes of contenders."""
    return [name for name in server.tree() if "-lock-" in name or "-lease-" in name]


def end(how: str, server: Server, operator: zklock.Client, lease: zklock.Lease | aio.Lease) -> None:
    """End a hold in one of several ways, from outside its program."""
    match how:
        case "broken":
            operator.break_lock(lease.node)
        case "expired":
            assert server.expire(lease)
        case "revoked":
            for _ in range(2):
                operator.revoke(lease.node)


@pytest.mark.parametrize("how", ENDS)
def test_a_scope_is_entered_again_after_any_end(embedded: Server, how: str) -> None:
    with zklock.Client(embedded.hosts) as client, zklock.Client(embedded.hosts) as operator:
        lock = zklock.Mutex(client, "/l", max_hold=BRIEF if how == "held too long" else None)
        theirs = zklock.Mutex(operator, "/l")
        tokens = []
        for _ in range(2):
            if how in ("timed out", "cancelled"):
                assert theirs.acquire()
                for _ in range(2):
                    assert not lock.acquire(timeout=BRIEF / 4)
                    with pytest.raises(zklock.LockTimeout), lock.hold(timeout=BRIEF / 4):
                        pass
                theirs.release()
            lost = how in ("broken", "expired", "held too long")
            with pytest.raises(zklock.LockLost) if lost else nullcontext(), lock as lease:
                tokens.append(lease.fencing_token)
                end(how, embedded, operator, lease)
                assert lease.wait_lost(LIMIT if lost else 0) == lost
            assert lock.lease is None
            assert not lock.owned()
            with pytest.raises(zklock.NotHeld):
                lock.release()
            with pytest.raises(zklock.NotHeld):
                lease.release()
            until(lambda: not nodes(embedded))
        assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("how", ENDS)
def test_a_scope_of_asyncio_is_entered_again_after_any_end(embedded: Server, how: str) -> None:
    async def job(operator: zklock.Client) -> None:
        async with aio.Client(embedded.hosts) as client, aio.Client(embedded.hosts) as other:
            lock = aio.Mutex(client, "/l", max_hold=BRIEF if how == "held too long" else None)
            theirs = aio.Mutex(other, "/l")
            tokens = []
            for _ in range(2):
                if how in ("timed out", "cancelled"):
                    await theirs.acquire()
                    if how == "timed out":
                        assert not await lock.acquire(timeout=BRIEF / 4)
                    else:
                        waiting = asyncio.create_task(lock.acquire())
                        while len(nodes(embedded)) < 2:
                            await asyncio.sleep(0.002)
                        waiting.cancel()
                        with pytest.raises(asyncio.CancelledError):
                            await waiting
                    await theirs.release()
                lost = how in ("broken", "expired", "held too long")
                try:
                    async with lock as lease:
                        tokens.append(lease.fencing_token)
                        await asyncio.to_thread(end, how, embedded, operator, lease)
                        if lost:
                            await asyncio.sleep(LIMIT)
                except zklock.LockLost:
                    assert lost
                else:
                    assert not lost
                assert not lock.owned()
                with pytest.raises(zklock.NotHeld):
                    await lock.release()
                with pytest.raises(zklock.NotHeld):
                    await lease.release()
                while nodes(embedded):
                    await asyncio.sleep(0.002)
            assert tokens == sorted(set(tokens))

    with zklock.Client(embedded.hosts) as operator:
        asyncio.run(job(operator))


def test_releasing_a_lost_lease_does_not_end_a_later_hold(embedded: Server) -> None:
    with zklock.Client(embedded.hosts) as client:
        lock = zklock.Mutex(client, "/l")
        assert lock.acquire()
        lost = lock.lease
        assert lost is not None
        assert embedded.expire(client)
        assert lost.wait_lost(LIMIT)
        assert lock.acquire(timeout=LIMIT)
        later = lock.lease
        assert later is not None
        assert later.fencing_token > lost.fencing_token
        lost.release()
        with pytest.raises(zklock.NotHeld):
            lost.release()
        later.check()
        assert lock.owned()
        assert nodes(embedded) == [later.node]
        lock.release()
        with pytest.raises(zklock.NotHeld):
            lock.release()


def test_each_listener_is_called_once_and_a_second_cancel_does_nothing(embedded: Server) -> None:
    received: list[str] = []
    client = zklock.Client(embedded.hosts)

    def note(state: str) -> None:
        received.append(state)

    one, same, gone = (
        client.on_state(note),
        client.on_state(note),
        client.on_state(lambda _: received.append("!")),
    )
    gone.cancel()
    gone.cancel()
    for _ in range(2):
        received.clear()
        assert embedded.disconnect(client)
        until(lambda: len(received) >= 4)
        assert sorted(received) == ["connected", "connected", "suspended", "suspended"]
    one.cancel()
    one.cancel()
    received.clear()
    client.close()
    until(lambda: received)
    # Wait long enough for a second call to arrive.
    time.sleep(BRIEF)
    assert received == ["closed"]
    client.close()
    client.on_state(note).cancel()
    same.cancel()
    assert received == ["closed"]


def test_a_loss_is_reported_once_to_each_listener_even_a_late_one(embedded: Server) -> None:
    received: list[object] = []
    with zklock.Client(embedded.hosts) as client:
        lock = zklock.Mutex(client, "/l")
        assert lock.acquire()
        lease = lock.lease
        assert lease is not None
        lease.on_lost(received.append)
        lease.on_lost(received.append)
        lease.on_lost(lambda _: received.append("!")).cancel()
        assert embedded.expire(client)
        until(lambda: len(received) == 2)
        lease.on_lost(received.append)
        until(lambda: len(received) == 3)
        time.sleep(BRIEF)
        assert [one.node for one in received] == [lease.node] * 3  # type: ignore[attr-defined]
        lock.release()


def test_a_revocation_request_reaches_each_listener(embedded: Server) -> None:
    received: list[object] = []
    with zklock.Client(embedded.hosts) as client, zklock.Client(embedded.hosts) as operator:
        lock = zklock.Mutex(client, "/l")
        assert lock.acquire()
        lease = lock.lease
        assert lease is not None
        notice = lease.on_revoke(received.append)
        lease.on_revoke(received.append)
        operator.revoke(lease.node)
        until(lambda: len(received) == 2)
        operator.revoke(lease.node)
        notice.cancel()
        notice.cancel()
        # A new listener receives an earlier request.
        lease.on_revoke(received.append)
        until(lambda: len(received) == 3)
        lock.release()
        with pytest.raises(zklock.NotHeld):
            operator.revoke(lease.node)


@pytest.mark.parametrize("times", [(BRIEF, 600.0), (600.0, BRIEF), (600.0, 0.0)])
def test_the_earliest_drain_counts_and_all_callers_wait_for_it(
    embedded: Server, times: tuple[float, float]
) -> None:
    client = zklock.Client(embedded.hosts)
    lock = zklock.Mutex(client, "/l")
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    with ThreadPoolExecutor(3) as pool:
        ends = [pool.submit(client.close, drain) for drain in times]
        for done in ends:
            done.result(LIMIT)
    assert (client.state, lease.loss_reason) == ("closed", "client closed")
    client.close()
    client.close(drain=600.0)


def test_a_candidate_runs_again_after_a_run_that_failed(embedded: Server) -> None:
    rounds = 0

    def body(leadership: zklock.Leadership) -> None:
        nonlocal rounds
        rounds += 1
        leadership.check()
        raise LookupError(rounds)

    with zklock.Client(embedded.hosts) as client:
        election = zklock.Election(client, "/e")
        for number in (1, 2, 3):
            with pytest.raises(LookupError, match=f"^{number}$"):
                election.run(body)
            assert not election.is_leader
            assert election.candidates() == []
        with election.lead() as first:
            with election.lead() as second:
                assert first.fencing_token == second.fencing_token
            assert election.is_leader
        assert not election.is_leader
    election.run(body)
    assert rounds == 3


def test_a_shared_count_that_is_set_again_admits_that_many_holders(embedded: Server) -> None:
    with zklock.Client(embedded.hosts) as client:
        client.set_shared_count("/n", 1)
        semaphore = zklock.Semaphore(client, "/s", shared_count="/n")
        assert semaphore.acquire()
        for number in (2, 3):
            granted = threading.Event()

            def wait(granted: threading.Event = granted) -> None:
                assert semaphore.acquire(timeout=LIMIT)
                granted.set()

            waiting = threading.Thread(target=wait)
            waiting.start()
            for _ in range(2):
                client.set_shared_count("/n", number - 1)
            assert not granted.wait(BRIEF)
            for _ in range(2):
                client.set_shared_count("/n", number)
            assert granted.wait(LIMIT)
            waiting.join(LIMIT)


def test_a_second_close_waits_for_the_first_one(embedded: Server) -> None:
    client = zklock.Client(embedded.hosts)
    embedded.pause()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(client.close)
        until(lambda: client.state == "closed")
        others = [pool.submit(client.close), pool.submit(client.close, 600.0)]
        time.sleep(BRIEF)
        assert first.done() or not any(other.done() for other in others)
        for closing in (first, *others):
            closing.result(LIMIT)
    embedded.resume()


def test_a_listener_added_after_the_loss_receives_no_revocation_request(embedded: Server) -> None:
    received: list[object] = []
    with zklock.Client(embedded.hosts) as client, zklock.Client(embedded.hosts) as operator:
        lock = zklock.Mutex(client, "/l")
        assert lock.acquire()
        lease = lock.lease
        assert lease is not None
        asked = threading.Event()
        lease.on_revoke(lambda _: asked.set())
        operator.revoke(lease.node)
        assert asked.wait(LIMIT)
        operator.break_lock(lease.node)
        assert lease.wait_lost(LIMIT)
        lease.on_revoke(received.append)
        time.sleep(BRIEF)
        assert received == []
        lock.release()
