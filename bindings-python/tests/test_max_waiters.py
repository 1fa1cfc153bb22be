"""Acquires that exceed `max_waiters`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import zklock
from zklock import aio


def waiting(client: zklock.Client, path: str) -> threading.Thread:
    """Start a thread that waits for the lock, and releases it immediately."""
    lock = zklock.Mutex(client, path)

    def wait() -> None:
        with lock:
            pass

    thread = threading.Thread(target=wait)
    thread.start()
    while len(lock.contenders()) < 2:
        pass
    return thread


def test_one_too_many_is_refused_at_once(hosts: str, client: zklock.Client, path: str) -> None:
    with zklock.Client(hosts) as other, zklock.Mutex(client, path):
        nobody = zklock.Mutex(other, path, max_waiters=0)
        with pytest.raises(zklock.LockTimeout, match="is full: it is taken, and no waiters") as refused:
            nobody.acquire()
        assert refused.value.reason == "full"
        thread = waiting(client, path)
        for lock in (zklock.Mutex(other, path, max_waiters=1), nobody):
            with pytest.raises(zklock.LockTimeout) as refused, lock.hold(timeout=60):
                pass
            assert refused.value.reason == "full"
            assert not lock.acquire(blocking=False)
            with pytest.raises(zklock.LockTimeout) as tried, lock.hold(timeout=0):
                pass
            assert tried.value.reason == "taken"
        assert len(nobody.contenders()) == 2
    thread.join()


def test_a_holder_enters_again(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, max_waiters=0)
    with lock, lock as lease:
        lease.check()


def test_halves_and_permits(hosts: str, client: zklock.Client, path: str) -> None:
    with zklock.Client(hosts) as other:
        both = zklock.ReadWriteLock(other, f"{path}/rw", max_waiters=0)
        with zklock.ReadWriteLock(client, f"{path}/rw").read_lock:
            with both.read_lock:
                pass
            with pytest.raises(zklock.LockTimeout) as refused, both.write_lock:
                pass
            assert refused.value.reason == "full"
        with zklock.Semaphore(client, f"{path}/s", 1):
            with pytest.raises(zklock.LockTimeout) as refused:
                zklock.Semaphore(other, f"{path}/s", 1, max_waiters=0).acquire()
            assert refused.value.reason == "full"


def test_in_asyncio(hosts: str, client: zklock.Client, path: str) -> None:
    async def main() -> None:
        async with aio.Client(hosts) as other:
            with pytest.raises(zklock.LockTimeout) as refused:
                await aio.Mutex(other, path, max_waiters=0).acquire()
            assert refused.value.reason == "full"

    with zklock.Mutex(client, path):
        asyncio.run(main())


@pytest.mark.parametrize("module", [zklock, aio])
@pytest.mark.parametrize("number", [-1, 1 << 40])
def test_a_number_out_of_range(module: Any, number: int) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^max_waiters: "):
        module.Mutex("zk1", "/a", max_waiters=number)
