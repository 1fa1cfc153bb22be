"""The methods of an asyncio lock return awaitables. These tests await them later, elsewhere or never."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from conftest import Run
from harness.observer import Observer
from tasks import in_a_task, queued

import zklock
from zklock import aio


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """Check that a test causes no warning, such as the warning about a coroutine that is never awaited."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def free(lock: aio.Lock) -> None:
    """Wait until no client has the lock."""
    while await lock.locked():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", ["lock", "lease", "leases", "not reentrant"])
def test_a_callback_releases(run: Run, path: str, what: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path, reentrant=what != "not reentrant")
        slots = aio.Semaphore(client, path + "-2", 2)
        leases = await slots.acquire_many(2)
        await lock.acquire()
        assert lock.lease is not None
        release = {"lease": lock.lease.release, "leases": leases.release}.get(what, lock.release)
        asyncio.get_running_loop().call_soon(release)
        await free(slots if what == "leases" else lock)
        await (lock if what == "leases" else leases).release()

    run(body)


def test_a_callback_acts_for_the_task_that_scheduled_it(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        both = aio.ReadWriteLock(client, path)
        loop = asyncio.get_running_loop()
        lock = both.read_lock
        await lock.acquire()
        seen: list[Any] = []

        async def another() -> None:
            await lock.acquire()
            loop.call_soon(lambda: seen.append(lock.owned()))
            loop.call_soon(lock.release)
            await asyncio.sleep(0.05)
            assert not lock.owned()

        await asyncio.create_task(another())
        assert seen == [True]
        assert lock.owned()
        await lock.release()

    run(body)


def test_a_callback_without_a_task_gets_an_error_with_the_alternative(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        problems: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(str(context["exception"])))
        await asyncio.to_thread(lambda: loop.call_soon_threadsafe(lock.release))
        # The acquire records this task as the owner in the task's context. `to_thread` copies this context,
        # so the second callback can release the lock.
        await lock.acquire()
        await asyncio.to_thread(lambda: loop.call_soon_threadsafe(lock.release))
        await free(lock)
        assert problems == [
            "the owner of a lock is a task, but no task scheduled this callback: release the lease instead"
        ]

    run(body)


def test_a_release_can_be_awaited_in_every_manner(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path, reentrant=False)
        manners: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: lock.release(),
            lambda: asyncio.create_task(lock.release()),
            lambda: asyncio.wait_for(lock.release(), 5),
            lambda: asyncio.shield(lock.release()),
            lambda: asyncio.gather(lock.release()),
        )
        for how in manners:
            assert await lock.acquire()
            await how()
            assert not await lock.locked()
        async with asyncio.TaskGroup() as group:
            assert await group.create_task(lock.acquire())
        await lock.release()
        with pytest.raises(zklock.NotHeld):
            await lock.release()

    run(body)


async def finish(awaitable: Awaitable[None]) -> None:
    await awaitable


def test_a_release_is_awaited_only_once(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        await lock.acquire()
        releasing = lock.release()
        first = asyncio.create_task(finish(releasing))
        # The first task now takes its first step.
        await asyncio.sleep(0)
        # The first task is complete already if the server replied before it ran.
        error = "cannot reuse already awaited" if first.done() else "being awaited already"
        with pytest.raises(RuntimeError, match=error):
            await releasing
        assert await asyncio.wait_for(first, 5) is None
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await releasing

    run(body)


def test_a_release_that_is_awaited_has_another_error_than_one_that_was_awaited(run: Run, path: str) -> None:
    class Begun:
        def __init__(self, awaitable: Awaitable[None]) -> None:
            self._iterator = awaitable.__await__()

        def __await__(self) -> Generator[Any, Any, None]:
            return self._iterator

    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        await lock.acquire()
        releasing = lock.release()
        begun = Begun(releasing)
        with pytest.raises(RuntimeError, match="coroutine is being awaited already"):
            await releasing
        await begun
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await releasing

    run(body)


def test_a_client_that_a_callback_closes(hosts: str) -> None:
    async def main() -> None:
        client = await aio.Client(hosts).connect()
        asyncio.get_running_loop().call_soon(client.close)
        while client.state != "closed":
            await asyncio.sleep(0.01)

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("call", ["locked", "acquire"])
def test_a_result_that_is_not_awaited_raises_in_a_condition(run: Run, path: str, call: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        with pytest.raises(TypeError, match=rf"await {call}\(\)"):
            bool(getattr(lock, call)())
        assert await getattr(lock, call)() is (call == "acquire")
        assert lock.owned() is (call == "acquire")
        if call == "acquire":
            await lock.release()

    run(body)


async def forget(lock: aio.Lock) -> None:
    """Acquire without `await`, by mistake."""
    lock.acquire()  # type: ignore[unused-coroutine]
    gc.collect()


def test_an_acquire_that_is_forgotten_warns(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            await forget(aio.Mutex(client, path))

    run(body)


def test_many_permits_as_a_value_and_as_a_scope(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        slots = aio.Semaphore(client, path, 3)
        leases = await slots.acquire_many(2)
        assert len(leases) == 2
        with pytest.raises(zklock.LockTimeout):
            await slots.acquire_many(2, timeout=0.05)
        await leases.release()
        async with slots.acquire_many(3, timeout=5) as leases:
            assert await slots.locked()
        async with await slots.acquire_many(3) as leases:
            assert [lease.state for lease in leases] == ["held"] * 3
        assert not await slots.locked()
        with pytest.raises(zklock.LockTimeout):
            async with slots.acquire_many(1), slots.acquire_many(3, timeout=0.05):
                pytest.fail("there are only three")
        leases = await asyncio.create_task(slots.acquire_many(1))
        assert len(leases) == 1
        await leases.release()

    run(body)


def test_a_lost_permit_cancels_the_scope(run: Run, path: str) -> None:
    async def work(client: aio.Client) -> None:
        async with aio.Semaphore(client, path, 2).acquire_many(2) as leases:
            await client.break_lock(leases[1].node)
            await asyncio.Event().wait()

    async def body(client: aio.Client) -> None:
        with pytest.raises(zklock.LockLost):
            await work(client)

    run(body)


def test_an_exit_stack(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        async with AsyncExitStack() as stack:
            lease = await stack.enter_async_context(lock)
            again = await stack.enter_async_context(lock.hold(timeout=5))
            assert lease.fencing_token == again.fencing_token
            slots = aio.Semaphore(client, path + "-2", 2)
            await stack.enter_async_context(slots.acquire_many(2))
        assert not await lock.locked()

    run(body)


def test_a_cancelled_wait_for_permits_leaves_the_queue(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        slots = aio.Semaphore(client, path, 1)
        async with slots.acquire_many(1):
            waiter = asyncio.create_task(slots.acquire_many(1))
            await queued(observer, f"{path}/leases", 2)
            waiter.cancel()
            await queued(observer, f"{path}/leases", 1)

    run(body)


def test_async_callbacks_run_as_tasks(hosts: str, path: str) -> None:
    async def main() -> None:
        client, received = aio.Client(hosts), asyncio.Event()
        states: list[str] = []

        async def state(new: str) -> None:
            await asyncio.sleep(0)
            states.append(new)
            assert asyncio.current_task() is not None

        async def lost(lease: aio.Lease) -> None:
            await asyncio.sleep(0)
            assert lease.state == "lost"
            assert asyncio.current_task() is not None
            received.set()

        client.on_state(state)
        lock = aio.Mutex(client, path)
        await lock.acquire()
        lease = lock.lease
        assert lease is not None
        lease.on_lost(lost)
        await in_a_task(lambda: client.break_lock(lease.node))
        await asyncio.wait_for(received.wait(), 10)
        await client.close()
        while "closed" not in states:
            await asyncio.sleep(0.01)
        assert states == ["connecting", "connected", "closed"]

    asyncio.run(main())


def test_an_exception_of_an_async_callback_is_reported(hosts: str) -> None:
    async def main() -> list[str]:
        reports: list[str] = []
        reported = asyncio.Event()

        def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            reports.append(repr(context.get("exception")))
            reported.set()

        asyncio.get_running_loop().set_exception_handler(report)
        client = aio.Client(hosts)

        async def fail(state: str) -> None:
            raise KeyError(state)

        notice = client.on_state(fail)
        await client.connect()
        # The call might not have arrived yet.
        while not reported.is_set():
            await asyncio.sleep(0.01)
            gc.collect()
        notice.cancel()
        await client.close()
        return reports

    assert asyncio.run(main())[0] == "KeyError('connecting')"
