"""Locks whose node the client keeps for a while: `linger`."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import zklock
from zklock import aio

LONG = 600.0
"""Longer than any of these tests takes."""


def sent(client: zklock.Client) -> int:
    return sum(client.stats().requests.values())


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        pass


def keep(client: zklock.Client, lock: zklock.Mutex) -> int:
    """Acquire and release the lock repeatedly until no request is sent. Return the lock's fencing token.

    The client sends its last request, the watch on its node, at the same time as the first rounds.
    """
    watches = client.stats().requests["watch"]

    def quiet() -> bool:
        before = sent(client)
        with lock:
            pass
        return sent(client) == before and client.stats().requests["watch"] > watches

    until(quiet)
    with lock as lease:
        return lease.fencing_token


def test_a_lock_is_taken_again_without_a_request(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, linger=LONG)
    token = keep(client, lock)
    before, stats = sent(client), client.stats()
    handoffs = []
    for _ in range(100):
        with lock as lease:
            assert lease.fencing_token == token
            handoffs.append(lease.handoffs)
    assert handoffs == list(range(handoffs[0], handoffs[0] + 100))
    assert sent(client) == before
    assert client.stats().retakes - stats.retakes == 100
    assert client.stats().as_dict()["retakes"] == client.stats().retakes
    # A new object for the path is the same lock.
    with zklock.Mutex(client, path, linger=LONG) as lease:
        assert lease.fencing_token == token
    assert client.health().holds == []
    (contender,) = lock.contenders()
    assert (contender.linger, contender.cohort, contender.owner) == (LONG, None, None)
    assert pickle.loads(pickle.dumps(contender)) == contender
    with zklock.Mutex(client, f"{path}-plain") as lease:
        (contender,) = zklock.Mutex(client, f"{path}-plain").contenders()
        assert (contender.linger, contender.cohort) == (None, None)
        assert contender.node == lease.node


def test_a_contender_of_another_client_gets_it(hosts: str, client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, linger=LONG)
    token = keep(client, lock)
    with zklock.Client(hosts) as other:
        theirs = zklock.Mutex(other, path)
        assert not theirs.acquire(blocking=False)
        with theirs as lease:
            assert lease.fencing_token > token
    assert keep(client, lock) > token


def test_both_halves_keep_their_nodes(client: zklock.Client, path: str) -> None:
    lock = zklock.ReadWriteLock(client, path, linger=LONG)
    for half in (lock.read_lock, lock.write_lock, lock.read_lock):
        with half as first:
            token = first.fencing_token
        with half as second:
            assert (second.fencing_token, second.handoffs) == (token, first.handoffs + 1)


def test_tasks_take_a_lock_again(hosts: str, path: str) -> None:
    async def main() -> None:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, linger=LONG)

            async def sent_in_ten_rounds() -> int:
                before = sum(client.stats().requests.values())
                for _ in range(10):
                    async with lock as lease:
                        assert lease.state == "held"
                return sum(client.stats().requests.values()) - before

            # The client sends its last request, the watch on its node, at the same time as the first rounds.
            while await sent_in_ten_rounds() or client.stats().requests["watch"] == 0:
                pass
            retakes = client.stats().retakes
            assert await sent_in_ten_rounds() == 0
            assert client.stats().retakes == retakes + 10
            assert client.stats().acquisitions == client.stats().retakes + 1
            # A cancelled task leaves the lock free.
            task = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                await lock.release()
            async with lock:
                pass

    asyncio.run(main())


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forked_child_has_nothing_and_the_parent_keeps_it(
    client: zklock.Client, path: str, reentrant: bool
) -> None:
    lock = zklock.Mutex(client, path, linger=LONG, reentrant=reentrant)
    token = keep(client, lock)
    child = os.fork()
    if child == 0:
        try:
            lock.acquire()
        except zklock.Forked:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with lock as lease:
        assert lease.fencing_token == token


def test_the_end_of_a_client_gives_the_node_up(hosts: str, path: str) -> None:
    with zklock.Client(hosts) as observer:
        for _ in range(3):
            with zklock.Client(hosts) as client:
                keep(client, zklock.Mutex(client, path, linger=LONG))
            until(lambda: not zklock.Mutex(observer, path).locked())


@pytest.mark.parametrize("linger", [-1, float("nan")])
@pytest.mark.parametrize("kind", [zklock.Mutex, zklock.ReadWriteLock, aio.Mutex, aio.ReadWriteLock])
def test_invalid_times_are_refused(client: zklock.Client, path: str, kind: Any, linger: float) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^linger: "):
        kind("zk1", path, linger=linger)


def test_permits_refuse_the_option(client: zklock.Client, path: str) -> None:
    with pytest.raises(TypeError, match="linger"):
        zklock.Semaphore(client, path, 2, linger=1)  # type: ignore[call-arg]
