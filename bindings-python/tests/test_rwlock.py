"""The Python interface of the read/write lock: its read lock and write lock, their owners, and downgrades."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from harness.observer import Observer
from harness.steps import in_time

import zklock
from zklock import aio

T = TypeVar("T")


def in_a_thread(work: Callable[[], T]) -> T:
    """Run a callable in a new thread, and so as another owner."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=20)


def kinds(observer: Observer, path: str) -> list[str]:
    """Return the kinds of the waiters and holders, in queue order."""
    return [node.partition("__")[2].partition("__")[0] for node in observer.queue(path)]


def test_the_halves_are_locks(client: zklock.Client, path: str, hosts: str) -> None:
    lock = zklock.ReadWriteLock(client, path)
    assert lock.read_lock is lock.read_lock
    assert lock.write_lock is lock.write_lock
    assert type(lock.read_lock) is type(lock.write_lock) is zklock.Lock
    assert isinstance(zklock.Mutex(client, path), zklock.Lock)
    assert lock.path == lock.read_lock.path == lock.write_lock.path == path
    with pytest.raises(AttributeError):
        lock.read_lock = lock.write_lock  # type: ignore[misc]
    assert repr(lock) == f"<zklock.ReadWriteLock {path} on {hosts}>"
    assert repr(lock.read_lock) == f"<zklock.ReadWriteLock.read_lock {path} on {hosts}, not held>"
    assert repr(lock.write_lock) == f"<zklock.ReadWriteLock.write_lock {path} on {hosts}, not held>"


def test_a_half_outlives_the_whole(client: zklock.Client, observer: Observer, path: str) -> None:
    half = zklock.ReadWriteLock(client, path).read_lock
    gc.collect()
    with half as lease:
        assert half.lease is lease
        assert half.owned()
    assert half.acquire()
    del half, lease
    gc.collect()
    observer.wait_queue(path, 0)


def test_threads_read_together_and_write_alone(client: zklock.Client, path: str) -> None:
    lock = zklock.ReadWriteLock(client, path)
    with lock.read_lock as mine:
        other = in_a_thread(lambda: lock.read_lock.acquire(blocking=False) and lock.read_lock.lease)
        assert isinstance(other, zklock.Lease)
        assert other.node != mine.node
        assert not in_a_thread(lambda: lock.write_lock.acquire(blocking=False))
        other.release()
    with lock.write_lock:
        assert not in_a_thread(lambda: lock.read_lock.acquire(timeout=0.1))
        assert not in_a_thread(lambda: lock.write_lock.acquire(timeout=0))


def test_ownership_is_of_one_half(client: zklock.Client, path: str) -> None:
    lock, same = zklock.ReadWriteLock(client, path), zklock.ReadWriteLock(client, path)
    with lock.read_lock:
        assert lock.read_lock.owned()
        assert same.read_lock.owned()
        assert not lock.write_lock.owned()
        assert lock.write_lock.lease is None
        with pytest.raises(zklock.NotHeld):
            lock.write_lock.release()
        assert same.read_lock.acquire(blocking=False)
        same.read_lock.release()
    assert not lock.read_lock.owned()


def test_a_downgrade_with_nested_scopes(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    lock, foreign = zklock.ReadWriteLock(client, path), zklock.ReadWriteLock(other, path)
    with lock.write_lock as writer:
        assert lock.write_lock.acquire()
        assert lock.read_lock.acquire(timeout=5)
        reader = lock.read_lock.lease
        assert reader is not None
        assert reader.fencing_token == writer.fencing_token
        lock.write_lock.release()
        assert not in_a_thread(lambda: foreign.read_lock.acquire(blocking=False))
    assert kinds(observer, path) == ["READ"]
    assert (lock.write_lock.owned(), lock.read_lock.owned()) == (False, True)
    with foreign.read_lock.hold(timeout=5):
        with pytest.raises(zklock.UpgradeRefused):
            lock.write_lock.acquire()
        assert foreign.read_lock.lease is not None
    reader.check()
    lock.read_lock.release()
    observer.assert_free(path)


@pytest.mark.parametrize("options", [{}, {"timeout": 30}, {"blocking": False}])
def test_an_upgrade_is_refused_at_once(
    client: zklock.Client, observer: Observer, path: str, options: dict[str, Any]
) -> None:
    lock = zklock.ReadWriteLock(client, path)
    with lock.read_lock:
        with in_time(1):
            with pytest.raises(zklock.UpgradeRefused) as refused:
                lock.write_lock.acquire(**options)
            with pytest.raises(zklock.UpgradeRefused), zklock.ReadWriteLock(client, path).write_lock:
                raise AssertionError("entered")
        assert refused.value.code == "UPGRADE_REFUSED"
        assert kinds(observer, path) == ["READ"]
        # Another thread does not hold the read lock.
        assert not in_a_thread(lambda: lock.write_lock.acquire(timeout=0.1))
    with lock.write_lock:
        pass


def test_a_hosts_string_and_names(hosts: str, path: str) -> None:
    lock = zklock.ReadWriteLock(hosts, path, label="reports", naming="kazoo")
    with lock.read_lock as reader, lock.read_lock.hold(timeout=1):
        assert "__rlock__" in reader.node
    with lock.write_lock as writer:
        assert "__lock__" in writer.node
        assert writer.session_id == reader.session_id


def test_asyncio(hosts: str, observer: Observer, path: str) -> None:
    async def in_a_task(work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        async def call() -> bool:
            return await work()

        return await asyncio.create_task(call())

    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(30):
            lock = aio.ReadWriteLock(client, path)
            assert lock.read_lock is lock.read_lock
            assert type(lock.read_lock) is type(lock.write_lock) is aio.Lock
            assert isinstance(aio.Mutex(client, path), aio.Lock)
            assert repr(lock) == f"<zklock.aio.ReadWriteLock {path} on {hosts}>"
            assert (
                repr(lock.write_lock) == f"<zklock.aio.ReadWriteLock.write_lock {path} on {hosts}, not held>"
            )

            async def read() -> bool:
                async with lock.read_lock.hold(timeout=5):
                    return True

            async with lock.read_lock as lease:
                assert lock.read_lock.lease is lease
                # `wait_for` can run this acquire in another task, but its owner is this task, which holds the
                # read lock. The acquire is therefore an upgrade, which is refused.
                with pytest.raises(zklock.UpgradeRefused):
                    await asyncio.wait_for(lock.write_lock.acquire(), 5)
                assert not await in_a_task(lambda: lock.write_lock.acquire(timeout=0.1))
                assert await in_a_task(read)
            async with lock.write_lock as writer:
                assert not await in_a_task(lambda: lock.read_lock.acquire(blocking=False))
                assert await lock.read_lock.acquire()
                reader = lock.read_lock.lease
                assert reader is not None
                assert reader.fencing_token == writer.fencing_token
            assert (lock.write_lock.owned(), lock.read_lock.owned()) == (False, True)
            assert await asyncio.to_thread(kinds, observer, path) == ["READ"]
            await lock.read_lock.release()
            observer.assert_free(path)

    asyncio.run(main(), debug=True)


def test_downgrades_of_one_task_at_once(hosts: str, observer: Observer, path: str) -> None:
    """Concurrent downgrades belong to one owner, and share one hold."""

    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(10):
            lock = aio.ReadWriteLock(client, path)
            async with lock.write_lock:
                assert all(await asyncio.gather(*(lock.read_lock.acquire() for _ in range(3))))
            for _ in range(3):
                assert lock.read_lock.owned()
                await lock.read_lock.release()
            assert await asyncio.to_thread(observer.queue, path) == []
            # The write lock is released while the downgrade is in progress.
            for wait in (True, False):
                await lock.write_lock.acquire()
                downgrade = asyncio.create_task(lock.read_lock.acquire())
                await asyncio.sleep(0)
                await lock.write_lock.release(wait)
                assert await downgrade
                await asyncio.to_thread(observer.wait_queue, path, 1)
                assert await asyncio.to_thread(kinds, observer, path) == ["READ"]
                await lock.read_lock.release()

    asyncio.run(main())


def test_a_cancelled_downgrade_leaves_the_writer(hosts: str, observer: Observer, path: str) -> None:
    async def main() -> None:
        async with aio.Client(hosts) as client, asyncio.timeout(20):
            lock = aio.ReadWriteLock(client, path)
            for passes in range(6):
                async with lock.write_lock as writer:
                    downgrade = asyncio.create_task(lock.read_lock.acquire())
                    for _ in range(passes):
                        await asyncio.sleep(0)
                    if downgrade.cancel():
                        with pytest.raises(asyncio.CancelledError):
                            await downgrade
                    else:
                        await lock.read_lock.release()
                    writer.check()
                    assert not lock.read_lock.owned()
                await asyncio.to_thread(observer.wait_queue, path, 0)

    asyncio.run(main())


def test_one_task_that_asks_for_both_halves_at_once_does_not_wait_for_itself(hosts: str, path: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), aio.Client(hosts) as client:
            lock = aio.ReadWriteLock(client, path)
            reading, writing = lock.read_lock, lock.write_lock
            first = await asyncio.gather(reading.acquire(), writing.acquire(), return_exceptions=True)
            assert first[0] is True
            assert isinstance(first[1], zklock.UpgradeRefused)
            await reading.release()
            assert await asyncio.gather(writing.acquire(), reading.acquire()) == [True, True]
            assert writing.lease is not None
            assert reading.lease is not None
            assert reading.lease.fencing_token == writing.lease.fencing_token
            await writing.release()
            await reading.release()

    asyncio.run(main())
