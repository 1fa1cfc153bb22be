"""Repeated and nested calls of the controls of `zklock.testing.Server`, with clients of zklock and kazoo."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

import zklock
from zklock import aio
from zklock.testing import Server

SILENCE = 0.3
"""Seconds in which nothing must happen."""

LIMIT = 30.0


@pytest.fixture
def embedded() -> Iterator[Server]:
    """Provide the server under test."""
    with Server() as made:
        yield made
        # End the pause and the delay, so that clients that are closed after this fixture get their replies.
        made.resume()
        made.latency(0)


@pytest.fixture
def client(embedded: Server) -> Iterator[zklock.Client]:
    """Provide a client of the server."""
    with zklock.Client(embedded.hosts) as made:
        yield made


@pytest.fixture
def kazoo(embedded: Server) -> Iterator[KazooClient]:
    """Provide a kazoo client of the server."""
    made = KazooClient(embedded.hosts, timeout=LIMIT)
    made.start(timeout=LIMIT)
    yield made
    embedded.resume()
    embedded.latency(0)
    made.stop()
    made.close()


def until(done: Callable[[], object]) -> None:
    """Wait until `done` returns a true value."""
    deadline = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_one_resume_ends_two_pauses_and_a_second_one_does_nothing(
    embedded: Server, client: zklock.Client
) -> None:
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            embedded.pause()
            embedded.pause()
            asked = pool.submit(client.get, "/none")
            with pytest.raises(TimeoutError):
                asked.result(SILENCE)
            embedded.resume()
            assert asked.result(LIMIT) is None
            embedded.resume()
            assert client.get("/none") is None


def test_the_newest_latency_counts(embedded: Server, client: zklock.Client) -> None:
    embedded.latency(2 * LIMIT)
    embedded.latency(SILENCE)
    begun = time.monotonic()
    client.get("/none")
    assert SILENCE <= time.monotonic() - begun < LIMIT
    embedded.latency(2 * LIMIT)
    embedded.latency(0)
    embedded.latency(0)
    assert client.get("/none") is None


def test_a_watch_of_kazoo_is_held_back_and_late(
    embedded: Server, client: zklock.Client, kazoo: KazooClient
) -> None:
    events: list[WatchedEvent] = []
    lock = zklock.Mutex(client, "/locks/report")
    for held_back in (True, False):
        assert lock.acquire(timeout=LIMIT)
        lease = lock.lease
        assert lease is not None
        kazoo.exists(lease.node, watch=events.append)
        if held_back:
            embedded.pause()
            embedded.pause()
        else:
            embedded.latency(2 * SILENCE)
        begun = time.monotonic()
        assert embedded.expire(client)
        assert lease.node not in embedded.tree()
        time.sleep(SILENCE)
        if held_back:
            assert events == []
            embedded.resume()
        until(lambda: events)
        event = events.pop()
        assert (event.type, event.path) == ("DELETED", lease.node)
        assert held_back or time.monotonic() - begun >= 2 * SILENCE
        embedded.latency(0)
        assert lease.wait_lost(LIMIT)
        lock.release()


def test_many_clients_are_cut_off_and_expired_during_a_pause(embedded: Server) -> None:
    clients = [zklock.Client(embedded.hosts) for _ in range(12)]
    leases = []
    for number, one in enumerate(clients):
        lock = zklock.Mutex(one, f"/locks/{number}")
        assert lock.acquire()
        assert lock.lease is not None
        leases.append(lock.lease)
    embedded.pause()
    for lease in leases[:8]:
        assert embedded.disconnect(lease)
        assert not embedded.disconnect(lease)
    for lease in leases[4:]:
        assert embedded.expire(lease)
        assert not embedded.expire(lease)
        assert not embedded.disconnect(lease)
    until(lambda: all(one.state == "suspended" for one in clients[:8]))
    assert sorted(name for name in embedded.tree() if "-lock-" in name) == sorted(
        lease.node for lease in leases[:4]
    )
    time.sleep(SILENCE)
    assert [lease.loss_reason for lease in leases] == [None] * 12
    embedded.resume()
    for lease in leases[4:]:
        assert lease.wait_lost(LIMIT)
        assert lease.loss_reason == "session expired"
    until(lambda: all(lease.state == "held" for lease in leases[:4]))
    for one in clients:
        one.close()
    assert not [name for name in embedded.tree() if "-lock-" in name]


def test_a_task_waits_out_a_pause_in_a_pause(embedded: Server) -> None:
    async def job() -> None:
        async with aio.Client(embedded.hosts) as one, aio.Client(embedded.hosts) as other:
            mine, theirs = aio.Mutex(one, "/locks/report"), aio.Mutex(other, "/locks/report")
            await mine.acquire()
            waiting = asyncio.create_task(theirs.acquire())
            while len([name for name in embedded.tree() if "-lock-" in name]) < 2:
                await asyncio.sleep(0.002)
            embedded.pause()
            assert embedded.expire(one)
            embedded.pause()
            assert not (await asyncio.wait([waiting], timeout=SILENCE))[0]
            embedded.resume()
            assert await asyncio.wait_for(waiting, LIMIT)

    asyncio.run(job())


def test_a_client_that_is_closed_during_a_pause_is_gone_after_it(
    embedded: Server, client: zklock.Client
) -> None:
    lock = zklock.Mutex(client, "/locks/report")
    assert lock.acquire()
    embedded.pause()
    with ThreadPoolExecutor(2) as pool:
        for closing in [pool.submit(client.close), pool.submit(client.close, SILENCE)]:
            closing.result(LIMIT)
    assert [name for name in embedded.tree() if "-lock-" in name]
    embedded.resume()
    until(lambda: not [name for name in embedded.tree() if "-lock-" in name])


def test_threads_that_stop_it_at_once_all_wait_for_its_end() -> None:
    server = Server()
    with zklock.Client(server.hosts, session_timeout=1.0):
        server.latency(LIMIT)
        server.pause()
        barrier = threading.Barrier(4)

        def stop() -> None:
            barrier.wait(LIMIT)
            server.stop()
            with pytest.raises(RuntimeError, match=r"^the server was stopped$"):
                server.tree()

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(stop) for _ in range(4)]:
                done.result(LIMIT)
