"""The types are complete, and the stubs are correct."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
USAGE = """
import asyncio
from typing import assert_type
import zklock
from zklock import aio

def blocking(client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/a", label="x", naming="kazoo")
    assert_type(lock.acquire(timeout=None), bool)
    with lock as lease:
        assert_type(lease, zklock.Lease)
        assert_type(lease.fencing_token, int)
    assert_type(client.stats(), zklock.Stats)
    assert_type(client.stats().wait.buckets, list[tuple[float, int]])
    with lock.hold(timeout=5) as lease:
        assert_type(lock.lease, zklock.Lease | None)
    both = zklock.ReadWriteLock(client, "/b", label="x", naming="kazoo")
    locks: list[zklock.Lock] = [zklock.Mutex(client, "/a", reentrant=False), both.read_lock, both.write_lock]
    with both.write_lock as lease:
        assert_type(lease, zklock.Lease)
        assert_type(both.read_lock.acquire(), bool)
    slots = zklock.Semaphore(client, "/c", 3, label="x")
    with slots.acquire_many(2, timeout=1) as leases:
        assert_type([lease.node for lease in leases], list[str])
    several = zklock.MultiLock([slots, both.read_lock, lock])
    with several as leases, several.hold(timeout=1) as more:
        assert_type(leases, zklock.Leases)
        assert_type(more[0], zklock.Lease)
    assert_type(slots.locked(), bool)
    assert_type(lock.contenders()[0].since, float | None)

async def awaiting() -> None:
    async with aio.Client("a") as client:
        assert_type(client, aio.Client)
        lock = aio.Mutex(client, "/a")
        assert_type(await lock.acquire(timeout=1), bool)
        assert_type(await asyncio.wait_for(lock.acquire(), 1), bool)
        assert_type(await asyncio.create_task(lock.acquire()), bool)
        async with lock.hold(timeout=1) as lease:
            assert_type(lease, aio.Lease)
        await lock.release()
        both = aio.ReadWriteLock(client, "/b")
        locks: list[aio.Lock] = [aio.Mutex(client, "/a", reentrant=False), both.read_lock, both.write_lock]
        async with both.read_lock as lease:
            assert_type(lease, aio.Lease)
        slots = aio.Semaphore(client, "/c", shared_count="/n")
        async with await slots.acquire_many(2) as leases:
            assert_type([lease.node for lease in leases], list[str])
        several = aio.MultiLock([slots, both.read_lock, lock])
        async with several as leases, several.hold(timeout=1) as more:
            assert_type(leases, aio.Leases)
            assert_type(more[0], aio.Lease)
        assert_type(await slots.locked(), bool)
        assert_type((await lock.contenders())[0].data, bytes)

try:
    zklock.Mutex("a", "/a", naming="other")  # type: ignore[arg-type]
except zklock.Error as error:
    assert_type(error.code, str)
"""


def check(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict_on_the_package(tmp_path: Path) -> None:
    check("mypy", "--strict", "--cache-dir", str(tmp_path), "python/zklock")


def test_mypy_strict_on_a_program(tmp_path: Path) -> None:
    usage = tmp_path / "usage.py"
    usage.write_text(USAGE)
    check("mypy", "--strict", "--cache-dir", str(tmp_path), "--warn-unused-ignores", str(usage))


def test_the_stubs_match_the_module() -> None:
    check("mypy.stubtest", "zklock")
