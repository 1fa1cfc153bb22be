"""Locks that one thread or task hands to the next: `cohort`."""

from __future__ import annotations

import asyncio
import pickle
import queue
import threading
from pathlib import Path

import pytest

import zklock
from zklock import aio

HoldPlace = tuple[int, int, str]


def place(lease: zklock.Lease | aio.Lease) -> HoldPlace:
    return lease.fencing_token, lease.handoffs, lease.node


def creates(client: zklock.Client) -> int:
    return client.stats().requests["create"]


def until_waiting(client: zklock.Client, count: int) -> None:
    while len(client.health().waits) != count:
        pass


def test_threads_hand_the_lock_on_without_a_request(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, cohort=3)
    seen: queue.SimpleQueue[HoldPlace] = queue.SimpleQueue()

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
        # All these waiters share one node, so other clients see one contender. The waiters' own client knows
        # each of them.
        waits = client.health().waits
        assert [(wait.in_cohort, wait.node) for wait in waits] == [(True, None)] * 5
        for contender in lock.contenders():
            assert (contender.cohort, contender.linger, contender.owner) == (3, None, None)
            assert pickle.loads(pickle.dumps(contender)) == contender
    for thread in threads:
        thread.join()
    received = [seen.get() for _ in range(6)]
    assert [handoffs for _, handoffs, _ in received] == [0, 1, 2, 0, 1, 2]
    assert len({node for _, _, node in received}) == 2
    assert received == sorted(received, key=lambda one: one[:2])
    # The client creates a node that its waiters share. When this node gets the lock, the client creates a
    # second node for the remaining waiters.
    assert creates(client) - before == 2
    assert client.stats().handoffs == 4
    assert client.stats().as_dict()["handoffs"] == 4
    assert lock.contenders() == []


def test_tasks_hand_the_lock_on(hosts: str, path: str) -> None:
    async def main() -> list[HoldPlace]:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=64)
            seen: list[HoldPlace] = []

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

    received = asyncio.run(main())
    assert [handoffs for _, handoffs, _ in received] == list(range(11))
    assert len({node for _, _, node in received}) == 1


def test_a_task_is_handed_the_lock_without_another_thread(hosts: str, path: str) -> None:
    async def main() -> tuple[bool, int]:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=64)
            other: asyncio.Queue[aio.Lease] = asyncio.Queue()

            async def work() -> None:
                async with lock as lease:
                    other.put_nowait(lease)

            await lock.acquire()
            waiting = asyncio.create_task(work())
            while len(client.health().waits) != 1:
                await asyncio.sleep(0)
            released = lock.release()
            # The waiting task gets the lock within one iteration of the loop. No other thread has to wake the
            # loop.
            await asyncio.sleep(0)
            there = not other.empty()
            await released
            await waiting
            return there, (await other.get()).handoffs

    assert asyncio.run(main()) == (True, 1)


def wake_ups_of_the_delivery_thread() -> int:
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text().strip() == "zklock-deliver":
            (line,) = (
                line
                for line in (thread / "status").read_text().splitlines()
                if line.startswith("voluntary_ctxt_switches")
            )
            return int(line.split()[1])
    raise AssertionError("there is no delivery thread")


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc, which counts the waits of each thread"
)
def test_hand_offs_between_scopes_of_tasks_leave_the_delivery_thread_alone(hosts: str, path: str) -> None:
    tasks = 200

    async def main() -> tuple[int, int]:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=tasks + 1)

            async def work() -> None:
                async with lock:
                    pass

            async with lock:
                working = [asyncio.create_task(work()) for _ in range(tasks)]
                while len(client.health().waits) != tasks:
                    await asyncio.sleep(0)
                before = wake_ups_of_the_delivery_thread()
            await asyncio.gather(*working)
            return wake_ups_of_the_delivery_thread() - before, client.stats().handoffs

    wake_ups, handoffs = asyncio.run(main())
    assert handoffs == tasks
    # Only the last release waits for a server, and so needs the delivery thread.
    assert wake_ups < tasks // 10


def test_a_task_of_another_loop_is_handed_the_lock(hosts: str, path: str) -> None:
    client = aio.Client(hosts)
    lock = aio.Mutex(client, path, cohort=64)
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def work() -> None:
        async with lock as lease:
            seen.put(lease.handoffs)

    async def main() -> None:
        others = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
        async with lock as lease:
            seen.put(lease.handoffs)
            for number, other in enumerate(others, start=1):
                other.start()
                while len(client.health().waits) != number:
                    await asyncio.sleep(0)
        for other in others:
            await asyncio.to_thread(other.join)
        await client.close()

    asyncio.run(main())
    assert [seen.get() for _ in range(3)] == [0, 1, 2]


def test_a_task_that_is_cancelled_as_it_is_handed_the_lock_gives_it_back(hosts: str, path: str) -> None:
    async def main() -> int:
        async with aio.Client(hosts) as client:
            lock = aio.Mutex(client, path, cohort=64)

            async def work() -> int:
                async with lock as lease:
                    return lease.handoffs

            await lock.acquire()
            cancelled, last = asyncio.create_task(work()), asyncio.create_task(work())
            while len(client.health().waits) != 2:
                await asyncio.sleep(0)
            released = lock.release()
            cancelled.cancel()
            await released
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            return await last

    assert asyncio.run(main()) == 2


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

            # Use a separate task, because the holding task would re-enter the lock.
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


def test_locks_that_cannot_be_handed_on_refuse_cohort(client: zklock.Client, path: str) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^cohort: must not be combined with max_waiters"):
        zklock.Mutex(client, path, cohort=2, max_waiters=3)
    for number in (-1, 2**40):
        with pytest.raises(zklock.BadArgument, match=r"^cohort: "):
            zklock.Mutex(client, path, cohort=number)
    with pytest.raises(TypeError, match="cohort"):
        zklock.Semaphore(client, path, 2, cohort=2)  # type: ignore[call-arg]
