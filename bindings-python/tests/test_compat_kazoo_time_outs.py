"""Timeouts of `zklock.compat.kazoo`, for each kind of lock and each kind of wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness.observer import Observer
from harness.ports import free_port
from harness.steps import in_time

import zklock
from zklock.compat import kazoo as compat

Make = Callable[[zklock.Client, str, str], Any]

KINDS: dict[str, tuple[Make, Make]] = {
    "Lock": (compat.Lock, compat.Lock),
    "WriteLock": (compat.WriteLock, compat.WriteLock),
    "ReadLock": (compat.WriteLock, compat.ReadLock),
    "Semaphore": (compat.Semaphore, compat.Semaphore),
}
"""For each kind, the class of the holder and the class of the waiter."""

TIME_OUTS = (0.3, 0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_an_acquire_times_out_on_time(
    client: zklock.Client, other: zklock.Client, path: str, kind: str
) -> None:
    first, second = KINDS[kind]
    held, waiting = first(client, path, "first"), second(other, path, "second")
    assert held.acquire()
    for seconds in TIME_OUTS:
        began = time.monotonic()
        with in_time(seconds), pytest.raises(compat.LockTimeout):
            waiting.acquire(timeout=seconds)
        assert time.monotonic() - began >= seconds
        with in_time(0):
            assert waiting.acquire(blocking=False) is False
    assert held.release()
    assert waiting.acquire(timeout=TIME_OUTS[0] + 10)


@pytest.mark.parametrize("kind", ["Lock", "WriteLock", "ReadLock"])
def test_the_wait_for_the_objects_own_hold_times_out_on_time(
    client: zklock.Client, path: str, kind: str
) -> None:
    lock = KINDS[kind][1](client, path, "both")
    assert lock.acquire()
    for seconds in TIME_OUTS:
        began = time.monotonic()
        with in_time(seconds):
            assert lock.acquire(timeout=seconds) is False
        assert time.monotonic() - began >= seconds


@pytest.mark.parametrize("kind", KINDS)
def test_the_wait_for_another_threads_acquire_counts(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str, kind: str
) -> None:
    """A lock object runs one acquire at a time. The timeout of a second one includes its wait."""
    first, second = KINDS[kind]
    held, waiting = first(client, path, "first"), second(other, path, "second")
    assert held.acquire()
    directory = f"{path}/leases" if kind == "Semaphore" else path
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(waiting.acquire)
        observer.wait_queue(directory, 2)
        for seconds in TIME_OUTS:
            began = time.monotonic()
            with in_time(seconds):
                assert waiting.acquire(timeout=seconds) is False
            assert time.monotonic() - began >= seconds
        held.release()
        assert under_way.result(20)


@pytest.mark.parametrize("kind", KINDS)
def test_an_acquire_times_out_on_time_without_a_server(path: str, kind: str) -> None:
    with zklock.Client(f"127.0.0.1:{free_port()}", connect=False) as nowhere:
        waiting = KINDS[kind][1](nowhere, path, "second")
        for seconds in TIME_OUTS:
            began = time.monotonic()
            with in_time(seconds), pytest.raises(compat.LockTimeout):
                waiting.acquire(timeout=seconds)
            assert time.monotonic() - began >= seconds
