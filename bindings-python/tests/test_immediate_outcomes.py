"""Operations that complete without a wait, and operations whose outcomes reach the event loop together."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Run
from harness.observer import Observer
from tasks import acquire, queued

import zklock
from zklock import aio


def test_entering_again_neither_suspends_the_task_nor_creates_a_future(
    run: Run, observer: Observer, path: str
) -> None:
    """A re-entry completes in the first step of its coroutine, which this test runs directly."""

    def at_once(coroutine: Any) -> Any:
        steps = coroutine.__await__()
        try:
            waits_for = next(steps)
        except StopIteration as end:
            return end.value
        raise AssertionError(f"suspended, for {waits_for}")

    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        for timeout in (-1, None, 5):
            assert at_once(lock.acquire(timeout=timeout)) is True
            assert at_once(lock.release()) is None
        assert at_once(lock.acquire(blocking=False)) is True
        assert at_once(lock.release(wait=False)) is None
        lease = at_once(lock.__aenter__())
        assert (lease.node, lock.lease) == (lock.lease.node, lease)
        at_once(lock.__aexit__(None, None, None))
        assert await asyncio.create_task(lock.acquire()) is True
        assert await asyncio.create_task(lock.release()) is None
        assert lock.owned()
        await lock.release()
        await queued(observer, path, 0)

    run(body)


async def used_locks(client: aio.Client, path: str) -> list[aio.Mutex]:
    """Return thirty locks, each of which was held once, so that its parent nodes exist.

    Later acquires can then send their requests together.
    """
    locks = [aio.Mutex(client, f"{path}/{number}") for number in range(30)]
    for lock in locks:
        async with lock:
            pass
    return locks


async def acquire_while_busy(client: aio.Client, locks: list[aio.Mutex]) -> list[asyncio.Task[bool]]:
    """Return tasks that acquire the locks. All replies arrive while the loop is blocked."""
    acquiring = [asyncio.create_task(acquire(lock)) for lock in locks]
    # One iteration of the loop sends all requests.
    await asyncio.sleep(0)
    deadline = time.monotonic() + 10
    while client.stats().acquisitions < 2 * len(locks) and time.monotonic() < deadline:
        time.sleep(0.05)
    return acquiring


@pytest.mark.skipif(
    sys.platform == "win32",
    reason="the default event loop of Windows cannot watch a socket, so a thread wakes it",
)
def test_outcomes_that_arrive_while_a_loop_is_busy_ring_once(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        acquiring = await acquire_while_busy(client, await used_locks(client, path))
        event_loop: Any = asyncio.get_running_loop()
        watched = {key.fd for key in event_loop._selector.get_map().values()} - {event_loop._ssock.fileno()}
        with socket.socket(fileno=os.dup(watched.pop())) as bell:
            assert len(bell.recv(100, socket.MSG_PEEK)) == 1
        assert await asyncio.gather(*acquiring) == [True] * len(acquiring)

    run(body)


class WithoutDoorbell(asyncio.SelectorEventLoop):
    """Only loops of asyncio's own class have a doorbell. The delivery thread wakes all others."""


def run_without_doorbell(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a loop without a doorbell."""
    with asyncio.Runner(loop_factory=WithoutDoorbell) as runner:
        runner.run(main)


def test_outcomes_that_arrive_while_a_loop_is_busy_wake_it_once(hosts: str, path: str) -> None:
    async def body(client: aio.Client) -> None:
        locks = await used_locks(client, path)
        event_loop = asyncio.get_running_loop()
        wake, wakes = event_loop.call_soon_threadsafe, 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal wakes
            # Count only the calls on the delivery thread: the main thread calls this function too.
            wakes += threading.current_thread() is not threading.main_thread()
            return wake(*args, **kwargs)

        event_loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        acquiring = await acquire_while_busy(client, locks)

        async def later() -> None:
            async with aio.Client(client.hosts) as another, aio.Mutex(another, path):
                pass

        # One thread delivers all outcomes in order, so once a later outcome has arrived, the earlier ones
        # have too.
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(run_without_doorbell, later()).result(10)
        assert await asyncio.gather(*acquiring) == [True] * len(acquiring)
        # The second wake-up is for outcomes that arrived during the first one.
        assert 1 <= wakes <= 2, wakes
        event_loop.call_soon_threadsafe = wake  # type: ignore[method-assign]

    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(30):
            await body(client)

    run_without_doorbell(main())


def test_acquires_and_releases_leak_no_memory(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    async def tasks() -> None:
        again = aio.Mutex(client.hosts, path + "-aio")
        await again.acquire()
        for _ in range(20_000):
            await again.acquire()
            await again.release()
        await again.release()

    def threads() -> None:
        lock.acquire()
        for _ in range(20_000):
            with lock:
                lock.acquire()
                lock.release()
        lock.release()

    def grown(body: Any) -> int:
        body()
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        body()
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

    # The limit is in KiB: if each of the 20,000 rounds leaked even the smallest object, the growth would be
    # 300 KiB.
    assert grown(threads) < 250
    assert grown(lambda: asyncio.run(tasks())) < 250
