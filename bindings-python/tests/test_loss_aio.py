"""If the lock of an `async with` block is lost, the block's task is cancelled, as by `asyncio.timeout`."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Run
from harness.observer import Observer
from tasks import queued

import zklock
from zklock import aio

FOREVER = 3600


async def hold_until_cancelled(lock: aio.Lock, observer: Observer, entered: asyncio.Event) -> None:
    """Hold a lock whose node an operator deletes, and wait inside."""
    async with lock as lease:
        observer.delete(lease.node)
        entered.set()
        await asyncio.sleep(FOREVER)


def test_a_body_that_waits_is_cancelled(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        with pytest.raises(zklock.LockLost) as caught:
            await hold_until_cancelled(lock, observer, asyncio.Event())
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        # The lock object still works.
        async with lock:
            assert lock.owned()

    run(body)


def test_an_outer_cancellation_wins(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(hold_until_cancelled(aio.Mutex(client, path), observer, entered))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(body)


def test_an_outer_cancellation_wins_over_a_loss_that_cancels_too(
    run: Run, observer: Observer, path: str
) -> None:
    async def body(client: aio.Client) -> None:
        entered = asyncio.Event()

        async def work() -> None:
            async with aio.Mutex(client, path) as lease:
                try:
                    entered.set()
                    await asyncio.sleep(FOREVER)
                finally:
                    observer.delete(lease.node)
                    # Wait until the loss also cancels this.
                    await asyncio.sleep(FOREVER)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(body)


def test_a_timeout_around_the_scope_stays_a_timeout_error(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def work() -> None:
            async with asyncio.timeout(None) as limit, lock:
                limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.sleep(FOREVER)

        with pytest.raises(TimeoutError):
            await work()
        # The scope has waited for the acknowledgement of its release.
        assert not await lock.locked()

    run(body)


def test_a_timeout_before_the_scope_stays_a_timeout_error(
    run: Run, client: zklock.Client, observer: Observer, path: str
) -> None:
    async def body(own: aio.Client) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), aio.Mutex(own, path):
                await asyncio.sleep(FOREVER)
        # Wait, because the cancelled acquire might still be in the queue: it can delete its node only after
        # the reply to its create, which contains the node's name.
        await queued(observer, path, 1)

    with zklock.Mutex(client, path):
        run(body)


def test_the_body_can_replace_the_cancellation(run: Run, observer: Observer, path: str) -> None:
    async def fail(lock: aio.Lock) -> None:
        try:
            await hold_until_cancelled(lock, observer, asyncio.Event())
        except zklock.LockLost:
            raise KeyError("of the caller") from None

    async def clean_up(lock: aio.Lock) -> None:
        async with lock as lease:
            observer.delete(lease.node)
            try:
                await asyncio.sleep(FOREVER)
            except asyncio.CancelledError:
                raise ValueError("while cleaning up") from None

    async def body(client: aio.Client) -> None:
        with pytest.raises(KeyError):
            await fail(aio.Mutex(client, path))
        with pytest.raises(ValueError, match="while cleaning up") as caught:
            await clean_up(aio.Mutex(client, path))
        [note] = caught.value.__notes__
        assert note.startswith("zklock.LockLost: ")
        # The scope itself caused the cancellation, and takes it back.
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(body)


def test_a_scope_of_several_locks_ends_with_any(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        locks = aio.MultiLock([aio.Mutex(client, f"{path}-{number}") for number in range(3)])
        entered = asyncio.Event()

        async def lose_one() -> None:
            async with locks as leases:
                observer.delete(leases[1].node)
                entered.set()
                await asyncio.sleep(FOREVER)

        with pytest.raises(zklock.LockLost):
            await lose_one()
        assert entered.is_set()
        assert [observer.queue(f"{path}-{number}") for number in range(3)] == [[], [], []]

    run(body)


def test_a_loss_is_reported_in_the_event_loop(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        lease = lock.lease
        assert lease is not None
        assert not await lease.wait_lost(timeout=0)
        received: asyncio.Queue[tuple[aio.Lease, bool]] = asyncio.Queue()

        def tell(lost: aio.Lease) -> None:
            # This raises unless it is called in an event loop.
            received.put_nowait((lost, asyncio.get_running_loop().is_running()))

        lease.on_lost(tell)
        lease.on_lost(lambda _: received.put_nowait((lease, False))).cancel()
        observer.delete(lease.node)
        assert await lease.wait_lost(timeout=10)
        assert await received.get() == (lease, True)
        assert lease.loss_reason == "node deleted"
        # Registered after the loss.
        lease.on_lost(tell)
        assert await received.get() == (lease, True)
        assert received.empty()

    run(body)


def test_a_release_ends_the_wait_for_a_loss(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        lease = lock.lease
        assert lease is not None
        waiting = asyncio.create_task(lease.wait_lost())
        await asyncio.sleep(0)
        await lock.release()
        assert await waiting is False
        assert lease.loss_reason is None

    run(body)
