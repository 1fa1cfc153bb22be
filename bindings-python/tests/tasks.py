"""Helpers for tests with tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from harness.observer import Observer

from zklock import aio


async def in_a_task(awaitable: Callable[[], Awaitable[Any]]) -> Any:
    """Await a callable's result in a new task, and so as another owner."""

    async def work() -> Any:
        return await awaitable()

    return await asyncio.create_task(work())


async def acquire(lock: aio.Mutex) -> bool:
    """Acquire a lock for the task that runs this function."""
    return await lock.acquire()


async def queued(observer: Observer, path: str, length: int) -> None:
    """Wait until the lock has this many contenders."""
    await asyncio.to_thread(observer.wait_queue, path, length)
