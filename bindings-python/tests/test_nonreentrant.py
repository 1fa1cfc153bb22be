"""`Mutex(..., reentrant=False)`, which works like `threading.Lock` and `asyncio.Lock`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import scripts
from harness.observer import Observer
from harness.steps import in_time

import zklock
from zklock import aio

T = TypeVar("T")


def in_a_thread(work: Callable[[], T]) -> T:
    """Run a callable in a new thread, and so as another owner."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=20)


def test_the_holder_waits_for_itself(client: zklock.Client, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(client, path, reentrant=False)
    with lock as lease:
        assert not lock.acquire(blocking=False)
        with in_time(0.3):
            started = time.monotonic()
            assert not lock.acquire(timeout=0.3)
            assert time.monotonic() - started >= 0.3
        with pytest.raises(zklock.LockTimeout), lock.hold(timeout=0.1):
            raise AssertionError("entered")
        # Another lock object for the same path, reentrant or not, does not re-enter either.
        assert not zklock.Mutex(client, path, reentrant=False).acquire(blocking=False)
        assert not zklock.Mutex(client, path).acquire(blocking=False)
        assert lock.lease is lease
        observer.wait_queue(path, 1)
    with zklock.Mutex(client, path):
        assert not lock.acquire(blocking=False)
    observer.assert_free(path)


def test_any_thread_may_release(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, reentrant=False)
    for release in (lock.release, lambda: lock.release(wait=False)):
        assert lock.acquire()
        in_a_thread(release)
        assert not lock.owned()
    assert lock.acquire()
    threading.Timer(0.2, lock.release).start()
    with in_time(5):
        assert lock.acquire(timeout=10)
    lock.release()
    with pytest.raises(zklock.NotHeld, match="is not held"):
        lock.release()


def test_the_lock_object_holds_the_lock(client: zklock.Client, path: str) -> None:
    lock, same = (zklock.Mutex(client, path, reentrant=False) for _ in range(2))
    assert not lock.owned()
    assert lock.acquire()
    lease = lock.lease
    assert lock.owned()
    assert in_a_thread(lock.owned)
    assert in_a_thread(lambda: lock.lease) is lease is not None
    assert not same.owned()
    assert same.lease is None
    with pytest.raises(zklock.NotHeld):
        same.release()
    lease.release()
    assert not lock.owned()
    assert lock.lease is None


def test_a_lost_lock_is_not_owned(hosts: str, path: str) -> None:
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path, reentrant=False)
    assert lock.acquire()
    client.close()
    assert lock.lease is not None
    assert lock.lease.state == "lost"
    assert not lock.owned()
    # There is nothing left to release.
    lock.release()
    assert lock.lease is None


def test_a_scope_ends_its_own_hold_only(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    """The first thread leaves its scope after another has released the lock and a third has acquired it."""
    lock = zklock.Mutex(client, path, reentrant=False)
    inside, leave = threading.Event(), threading.Event()

    def third() -> None:
        with lock as lease:
            inside.set()
            assert leave.wait(20)
            lease.check()

    with ThreadPoolExecutor(1) as pool:
        with lock:
            in_a_thread(lock.release)
            working = pool.submit(third)
            assert inside.wait(20)
        assert lock.owned()
        assert not zklock.Mutex(other, path).acquire(blocking=False)
        leave.set()
        working.result(timeout=20)
    observer.wait_queue(path, 0)


def test_many_threads_on_one_object(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, reentrant=False)
    inside = 0

    def work() -> int:
        nonlocal inside
        for _ in range(10):
            with lock:
                inside += 1
                assert inside == 1
                inside -= 1
        return 10

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: work(), range(8))) == 80
    assert not lock.owned()


def test_a_forked_child_holds_nothing(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import warnings
        warnings.simplefilter("ignore")
        lock = zklock.Mutex(hosts, path, reentrant=False)
        lock.acquire()
        child = os.fork()
        if child == 0:
            try:
                lock.release()
            except zklock.NotHeld:
                print(lock.owned(), lock.lease, lock.acquire(blocking=False), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(lock.owned())
        lock.release()
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["False None False", "True"], done


def test_asyncio(hosts: str, observer: Observer, path: str) -> None:
    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(30):
            lock = aio.Mutex(client, path, reentrant=False)
            async with lock as lease:
                assert not await lock.acquire(blocking=False)
                assert not await lock.acquire(timeout=0.2)
                assert not await aio.Mutex(client, path).acquire(blocking=False)
                assert lock.owned()
                assert not aio.Mutex(client, path, reentrant=False).owned()
                assert lock.lease is lease

            # Any caller can release: another task, a thread, or a callback.
            async def other_task() -> None:
                assert lock.owned()
                await lock.release()

            async def callback() -> None:
                released: asyncio.Future[None] = asyncio.get_running_loop().create_future()

                def call() -> None:
                    assert lock.owned()
                    assert lock.lease is not None
                    task = asyncio.ensure_future(lock.release())
                    task.add_done_callback(lambda _: released.set_result(None))

                asyncio.get_running_loop().call_soon(call)
                await released

            async def other_thread() -> None:
                await asyncio.to_thread(lambda: asyncio.run(lock.release()))

            for work in (other_task, callback, other_thread):
                assert await lock.acquire()
                await asyncio.create_task(work())
                assert not lock.owned()
                assert lock.lease is None
                assert await asyncio.to_thread(observer.queue, path) == []
            with pytest.raises(zklock.NotHeld, match="is not held"):
                await lock.release()

            # A task can wait for a lock that it already holds, until the first hold is released.
            assert await lock.acquire()
            waiting = asyncio.create_task(lock.acquire())
            await asyncio.to_thread(observer.wait_queue, path, 2)
            await lock.release()
            assert await waiting
            await lock.release()

            # Branches of one task get the lock one after another.
            order: list[int] = []

            async def branch(number: int) -> None:
                assert await acquires[number]
                order.append(number)
                await lock.release()

            acquires = [lock.acquire() for _ in range(5)]
            await asyncio.gather(*(branch(number) for number in range(5)))
            assert sorted(order) == list(range(5))

    asyncio.run(main(), debug=True)


def test_a_scope_of_asyncio_ends_its_own_hold_only(hosts: str, path: str) -> None:
    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(20):
            lock = aio.Mutex(client, path, reentrant=False)
            leave = asyncio.Event()
            inside = asyncio.Event()

            async def other() -> None:
                async with lock as lease:
                    inside.set()
                    await leave.wait()
                    lease.check()

            async with lock:
                await lock.release()
                working = asyncio.create_task(other())
                await inside.wait()
            assert lock.owned()
            leave.set()
            await working
            assert not lock.owned()

    asyncio.run(main())
