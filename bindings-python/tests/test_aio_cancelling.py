"""A cancelled operation leaves nothing behind."""

from __future__ import annotations

import asyncio
import time

import pytest
from conftest import Run
from harness.observer import Observer
from tasks import queued

import zklock
from zklock import aio


def test_cancelling_leaves_the_queue(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        waiting = asyncio.create_task(lock.acquire())
        await queued(observer, path, 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queued(observer, path, 1)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lock.acquire(), 0.3)
        await queued(observer, path, 1)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), lock:
                raise AssertionError("entered")
        await queued(observer, path, 1)
        assert lock.lease is None

    with zklock.Mutex(other, path):
        run(body)


def test_cancelling_in_the_tick_of_the_grant_releases(
    run: Run, other: zklock.Client, observer: Observer, path: str
) -> None:
    """A task can be cancelled after the outcome has arrived and before it wakes up."""
    held = zklock.Mutex(other, path)

    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        for _ in range(5):
            assert held.acquire()
            waiting = asyncio.create_task(lock.acquire())
            await queued(observer, path, 2)
            # The grant arrives while `sleep` blocks the loop, which then cancels the task first.
            asyncio.get_running_loop().call_soon(waiting.cancel)
            held.release()
            time.sleep(0.1)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert lock.lease is None
            await queued(observer, path, 0)

    run(body)


@pytest.mark.parametrize("passes", range(5))
def test_cancelling_at_any_pass_of_the_loop_leaves_nothing(
    run: Run, observer: Observer, path: str, passes: int
) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        for delay in (0, 0.001, 0.003):
            waiting = asyncio.create_task(lock.acquire())
            await asyncio.sleep(delay)
            for _ in range(passes):
                await asyncio.sleep(0)
            if waiting.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            else:
                await lock.release()
            assert lock.lease is None
            await queued(observer, path, 0)

    run(body)


def test_a_cancelled_release_goes_on(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        # Cancelled before its first step.
        asyncio.create_task(lock.release()).cancel()
        assert not lock.owned()
        await queued(observer, path, 0)

    run(body)


@pytest.mark.parametrize("end", ["close", "throw"])
def test_a_coroutine_that_is_ended_by_hand_leaves_the_queue(
    run: Run, other: zklock.Client, observer: Observer, path: str, end: str
) -> None:
    async def body(client: aio.Client) -> None:
        acquiring = aio.Mutex(client, path).acquire()
        # The operation stays alive, because it is what `send` returns.
        operation = acquiring.send(None)
        await queued(observer, path, 2)
        if end == "close":
            acquiring.close()
        else:
            with pytest.raises(KeyError, match="by hand"):
                acquiring.throw(KeyError("by hand"))
        await queued(observer, path, 1)
        del operation

    with zklock.Mutex(other, path):
        run(body)
