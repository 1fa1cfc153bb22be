"""Locks that one thread or task hands to the next: `cohort`."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest

import zklock
from zklock import aio

Told = tuple[int, int, str]


def place(lease: zklock.Lease | aio.Lease) -> Told:
    return lease.fencing_token, lease.handoffs, lease.node


def creates(client: zklock.Client) -> int:
    return client.stats().requests["create"]


def until_waiting(client: zklock.Client, count: int) -> None:
    while len(client.health().waits) != count:
        pass


def test_threads_hand_the_lock_on_without_a_request(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, cohort=3)
    seen: queue.SimpleQueue[Told] = queue.SimpleQueue()

    def work() -> None:
        with lock as lease:
            seen.put(place(lease))

    threads = [threading.Thread(target=work) for _ in range(5)]
    with lock as first:
        seen.put(place(first))
        before = creates(client)
        for number, thread in enumerate(threads, start=1):
            thread.start()
            until_waiting(client, number)
    for thread in threads:
        thread.join()
    told = [seen.get() for _ in range(6)]
    assert [handoffs for _, handoffs, _ in told] == [0, 1, 2, 0, 1, 2]
    assert len({node for _, _, node in told}) == 2
    assert told == sorted(told, key=lambda one: one[:2])
    # One for those that wait at first, and one for those that the first node does not serve.
    assert creates(client) - before == 2
    assert client.stats().handoffs == 4
    assert client.stats().as_dict()["handoffs"] == 4
    assert lock.contenders() == []


def test_tasks_hand_the_lock_on(hosts: str, path: str) -> None:
    async def main() -> list[Told]:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=64)
            seen: list[Told] = []

            async def work() -> None:
                async with lock as lease:
                    seen.append(place(lease))

            async with lock as lease:
                seen.append(place(lease))
                tasks = [asyncio.create_task(work()) for _ in range(10)]
                while len(client.health().waits) != len(tasks):
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks)
            return seen

    told = asyncio.run(main())
    assert [handoffs for _, handoffs, _ in told] == list(range(11))
    assert len({node for _, _, node in told}) == 1


def test_writers_hand_the_lock_on_and_readers_do_not(client: zklock.Client, path: str) -> None:
    both = zklock.ReadWriteLock(client, path, cohort=64)
    seen: list[int] = []

    def work() -> None:
        with both.write_lock as lease:
            seen.append(lease.handoffs)

    thread = threading.Thread(target=work)
    with both.write_lock:
        thread.start()
        until_waiting(client, 1)
    thread.join()
    assert seen == [1]
    with both.read_lock as lease:
        assert lease.handoffs == 0


def test_a_waiter_that_gives_up_or_is_cancelled_is_passed_over(hosts: str, path: str) -> None:
    async def main() -> int:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=64)

            async def work() -> int:
                async with lock as lease:
                    return lease.handoffs

            # A task of its own: the one that holds would enter again.
            async def gives_up() -> bool:
                return await lock.acquire(timeout=0.05)

            async with lock:
                cancelled = asyncio.create_task(work())
                last = asyncio.create_task(work())
                while len(client.health().waits) != 2:
                    await asyncio.sleep(0)
                assert not await asyncio.create_task(gives_up())
                cancelled.cancel()
                while len(client.health().waits) != 1:
                    await asyncio.sleep(0)
            return await last

    assert asyncio.run(main()) == 1


def test_who_cannot_hand_a_lock_on_says_so(client: zklock.Client, path: str) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^cohort: must not be combined with max_waiters"):
        zklock.Mutex(client, path, cohort=2, max_waiters=3)
    for number in (-1, 2**40):
        with pytest.raises(zklock.BadArgument, match=r"^cohort: "):
            zklock.Mutex(client, path, cohort=number)
    with pytest.raises(TypeError, match="cohort"):
        zklock.Semaphore(client, path, 2, cohort=2)  # type: ignore[call-arg]
