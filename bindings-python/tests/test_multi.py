"""The Python interface of `MultiLock`."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.observer import Observer
from harness.steps import eventually, in_time

import zklock
from zklock import aio


def test_scopes_and_levels(client: zklock.Client, observer: Observer, path: str, hosts: str) -> None:
    a, b = (zklock.Mutex(client, f"{path}/{name}") for name in "ab")
    both = zklock.MultiLock(lock for lock in (b, a, b))
    assert both.paths == [a.path, b.path]
    assert repr(both) == f"<zklock.MultiLock {a.path} on {hosts}, {b.path} on {hosts}, not held>"
    assert both.leases is None
    with both as leases:
        assert [lease.path for lease in leases] == both.paths
        assert both.leases is leases
        assert a.owned()
        assert b.owned()
        # `both` contains `a` and `b`. This thread already holds them, so it re-enters them. Another thread
        # finds them taken.
        assert both.acquire(blocking=False)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(both.acquire, False).result(20)
            assert not pool.submit(a.acquire, False).result(20)
            assert pool.submit(lambda: both.leases).result(20) is None
            with pytest.raises(zklock.NotHeld, match="this thread"):
                pool.submit(both.release).result(20)
        both.release()
        assert both.leases is leases
        with both.hold(timeout=5):
            pass
        leases.check()
    observer.assert_free(a.path)
    observer.assert_free(b.path)
    with pytest.raises(zklock.NotHeld):
        both.release()


def test_time_out(client: zklock.Client, other: zklock.Client, observer: Observer, path: str) -> None:
    taken = zklock.Mutex(other, f"{path}/b")
    both = zklock.MultiLock([zklock.Mutex(client, f"{path}/{name}") for name in "ab"])
    with taken:
        with in_time(0.3):
            started = time.monotonic()
            assert not both.acquire(timeout=0.3)
            assert time.monotonic() - started >= 0.3
        # Long enough to reach the wait.
        with pytest.raises(zklock.LockTimeout, match=taken.path), both.hold(timeout=1):
            raise AssertionError("entered")
        observer.wait_queue(f"{path}/a", 0)
    with both:
        pass


def test_a_scope_ends_with_a_loss(client: zklock.Client, observer: Observer, path: str) -> None:
    a, b = (zklock.Mutex(client, f"{path}/{name}") for name in "ab")

    def work() -> None:
        with zklock.MultiLock([a, b]) as leases:
            # A lease that is held for long enough watches its node.
            observer.delete(leases[0].node)
            eventually(lambda: leases[0].state == "lost", "it knows")

    with pytest.raises(zklock.LockLost, match=a.path):
        work()
    observer.wait_queue(b.path, 0)


def test_what_is_refused(client: zklock.Client, other: zklock.Client, path: str) -> None:
    once = zklock.Mutex(client, path, reentrant=False)
    for wrong in ([], [once, once], [zklock.Mutex(client, path), zklock.Mutex(other, path)]):
        with pytest.raises(zklock.BadArgument, match="locks"):
            zklock.MultiLock(wrong)
    for odd in (["/a"], 5, [aio.Mutex("a:1", "/a")], [client]):
        with pytest.raises(TypeError):
            zklock.MultiLock(odd)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        aio.MultiLock([once])  # type: ignore[list-item]


def test_asyncio(hosts: str, observer: Observer, path: str) -> None:
    async def scenario() -> None:
        async with aio.Client(hosts) as client:
            a = aio.Mutex(client, f"{path}/a")
            b = aio.ReadWriteLock(client, f"{path}/b").read_lock
            c = aio.Semaphore(client, f"{path}/c", 1)
            every = aio.MultiLock([c, b, a])
            assert every.paths == [a.path, b.path, c.path]
            async with every as leases:
                assert [lease.path for lease in leases] == every.paths
                assert every.leases is leases
                assert a.owned()
                assert not await asyncio.create_task(every.acquire(timeout=0.1))
                waiting = asyncio.create_task(aio.MultiLock([a, c]).acquire())
                # This task called `acquire`, so it is the owner. It already holds the mutex, so the acquire
                # waits only for another permit.
                await asyncio.to_thread(observer.wait_queue, f"{c.path}/leases", 2)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await asyncio.to_thread(observer.wait_queue, f"{c.path}/leases", 1)
                leases.check()
            assert every.leases is None
            with pytest.raises(zklock.NotHeld):
                every.release()
            async with every.hold(timeout=5):
                pass
            assert await every.acquire()
            await every.release()

    asyncio.run(scenario())
    for directory in ("a", "b", "c/leases", "c/locks"):
        observer.assert_free(f"{path}/{directory}")
