"""Leases that are reported lost before the end of their term."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Run

import zklock
from zklock import aio
from zklock.testing import Server

SESSION = 6.0
"""Session timeout in seconds. A lease is certain for half of it. The maximum grace is a sixth of it."""

KINDS: list[Callable[..., Any]] = [
    lambda client, path, **grace: zklock.Mutex(client, path, **grace),
    lambda client, path, **grace: zklock.ReadWriteLock(client, path, **grace).read_lock,
    lambda client, path, **grace: zklock.ReadWriteLock(client, path, **grace).write_lock,
    lambda client, path, **grace: zklock.Semaphore(client, path, 1, **grace),
]


@pytest.mark.parametrize("make", KINDS, ids=["mutex", "read", "write", "semaphore"])
def test_a_grace_is_taken_off_what_remains(hosts: str, path: str, make: Callable[..., Any]) -> None:
    with zklock.Client(hosts, session_timeout=SESSION) as client:
        with make(client, path, grace=1.0) as lease:
            assert 0 < lease.remaining <= SESSION / 2 - 1
        with pytest.raises(zklock.BadArgument, match=r"^grace: must be at most 1s, a sixth of"):
            make(client, path, grace=1.001).acquire()
        assert not make(client, path).contenders()
        with pytest.raises(zklock.BadArgument, match=r"^grace: "):
            make(client, path, grace=-1.0)


def test_a_body_has_time_to_stop_while_its_node_is_there(path: str) -> None:
    with Server() as server, zklock.Client(server.hosts, session_timeout=SESSION) as client:
        lock, plain = zklock.Mutex(client, path, grace=1.0), zklock.Mutex(client, f"{path}/plain")
        with plain as held:
            assert lock.acquire()
            lease = lock.lease
            assert lease is not None
            server.pause()
            assert lease.wait_lost(SESSION)
            assert lease.loss_reason == "term ended"
            # The same term holds another lease of this session.
            assert held.state != "lost"
            assert lease.node in server.tree()
            server.resume()


async def body(lock: aio.Mutex, server: Server) -> None:
    async with lock:
        server.pause()
        await asyncio.Event().wait()


def test_in_asyncio_the_body_is_cancelled_within_the_term(run: Run, path: str) -> None:
    async def main(_: aio.Client) -> None:
        with Server() as server:
            client = aio.Client(server.hosts, session_timeout=SESSION)
            plain = aio.Mutex(client, f"{path}/plain")
            async with plain as held:
                with pytest.raises(zklock.LockLost):
                    await body(aio.Mutex(client, path, grace=1.0), server)
                assert held.state != "lost"
                server.resume()

    run(main)


def test_a_lock_is_pickled_with_its_grace(hosts: str, path: str) -> None:
    lock = pickle.loads(pickle.dumps(zklock.Mutex(hosts, path, grace=100.0)))
    with pytest.raises(zklock.BadArgument, match=r"^grace: "):
        lock.acquire()
