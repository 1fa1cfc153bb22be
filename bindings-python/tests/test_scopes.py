"""A scope ends only where it was entered, even if other code exits a scope of the same lock object."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from functools import partial
from typing import Any

import pytest
from conftest import Run
from harness.observer import Observer
from tasks import in_a_task

import zklock
from zklock import aio

Scope = AbstractContextManager[zklock.Lease]
AsyncScope = AbstractAsyncContextManager[aio.Lease]

# Objects that several owners can enter at the same time.
SHARED: dict[str, Callable[[zklock.Client, str], Scope]] = {
    "semaphore": lambda client, path: zklock.Semaphore(client, path, 5),
    "hold": lambda client, path: zklock.Semaphore(client, path, 5).hold(timeout=20),
    "read lock": lambda client, path: zklock.ReadWriteLock(client, path).read_lock,
    "election": lambda client, path: zklock.Election(client, path).lead(),
}
SHARED_AIO: dict[str, Callable[[aio.Client, str], AsyncScope]] = {
    "semaphore": lambda client, path: aio.Semaphore(client, path, 5),
    "hold": lambda client, path: aio.Semaphore(client, path, 5).hold(timeout=20),
    "read lock": lambda client, path: aio.ReadWriteLock(client, path).read_lock,
    "election": lambda client, path: aio.Election(client, path).lead(),
}


def rows(scope: Scope) -> Iterator[zklock.Lease]:
    """A generator that enters a scope."""
    with scope as lease:
        yield lease


async def async_rows(scope: AsyncScope) -> AsyncIterator[aio.Lease]:
    """An async generator that enters a scope."""
    async with scope as lease:
        yield lease


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Run a function as another owner, which has ended when this returns."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(timeout=20)
    return results.pop()


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("finalizer", ["without a scope", "in a scope"])
def test_a_generator_that_another_thread_closes_ends_its_own_scope(
    client: zklock.Client, path: str, kind: str, finalizer: str
) -> None:
    shared = SHARED[kind](client, path)
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        generator = rows(shared)
        lease = pool.submit(next, generator).result(timeout=20)
        bodies = [stack.enter_context(contextlib.contextmanager(rows)(shared)) for _ in range(2)]

        def close() -> None:
            if finalizer == "in a scope":
                with shared as own:
                    generator.close()  # type: ignore[attr-defined]
                    own.check()
            else:
                generator.close()  # type: ignore[attr-defined]

        in_a_thread(close)
        assert lease.state == "released"
        for body in bodies:
            body.check()


@pytest.mark.parametrize("kind", SHARED_AIO)
@pytest.mark.parametrize("finalizer", ["without a scope", "in a scope"])
def test_an_async_generator_that_another_task_closes_ends_its_own_scope(
    run: Run, path: str, kind: str, finalizer: str
) -> None:
    async def body(client: aio.Client) -> None:
        shared = SHARED_AIO[kind](client, path)
        inside, leave = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            async with shared as lease:
                inside.set()
                await leave.wait()
                lease.check()

        generator = async_rows(shared)
        # The task that began the scope keeps running.
        lease = await anext(generator)
        working = asyncio.create_task(work())
        await inside.wait()

        async def close() -> None:
            if finalizer == "in a scope":
                async with shared as own:
                    await generator.aclose()  # type: ignore[attr-defined]
                    own.check()
            else:
                await generator.aclose()  # type: ignore[attr-defined]

        await asyncio.create_task(close())
        assert lease.state == "released"
        leave.set()
        await working

    run(body)


def test_a_loss_ends_the_body_whose_neighbour_was_finalized(run: Run, observer: Observer, path: str) -> None:
    """A loss cancels the body, even if a foreign exit was refused before."""

    async def body(client: aio.Client) -> None:
        shared = aio.ReadWriteLock(client, path).read_lock
        inside: asyncio.Queue[aio.Lease] = asyncio.Queue()

        async def work() -> None:
            async with shared as lease:
                inside.put_nowait(lease)
                await asyncio.Event().wait()

        async def begin() -> None:
            generator = async_rows(shared)
            await anext(generator)
            # The event loop creates a task that finalizes the generator.
            del generator

        working = asyncio.create_task(work())
        lease = await inside.get()
        await in_a_task(begin)
        await asyncio.to_thread(observer.wait_queue, path, 1)
        lease.check()
        observer.delete(lease.node)
        with pytest.raises(zklock.LockLost):
            await working

    run(body)


def test_nested_scopes_of_one_owner_end_in_any_order(client: zklock.Client, path: str) -> None:
    slots = zklock.Semaphore(client, path, 5)
    first, second = rows(slots), rows(slots)
    leases = [next(first), next(second)]
    with slots as own:
        first.close()  # type: ignore[attr-defined]
        assert [lease.state for lease in leases] == ["released", "held"]
        own.check()
        second.close()  # type: ignore[attr-defined]
        own.check()
    assert own.state == "released"
    assert slots.lease is None


def test_a_stack_ends_no_scope_of_a_with_statement(client: zklock.Client, path: str) -> None:
    slots = zklock.Semaphore(client, path, 5)
    stack = ExitStack()
    lease = stack.enter_context(slots)
    with slots as own:
        stack.close()
        own.check()
        assert lease.state == "released"


@pytest.mark.parametrize("others", [0, 1])
def test_a_scope_of_a_thread_that_has_ended_may_be_ended_by_another(
    client: zklock.Client, path: str, others: int
) -> None:
    slots = zklock.Semaphore(client, path, 5)
    stack = ExitStack()
    lease = in_a_thread(lambda: stack.enter_context(slots))
    with ExitStack() as bodies:
        inside = [bodies.enter_context(contextlib.contextmanager(rows)(slots)) for _ in range(others)]
        stack.close()
        assert lease.state == "released"
        for body in inside:
            body.check()


@pytest.mark.parametrize("others", [0, 1])
def test_a_scope_of_a_task_that_is_done_may_be_ended_by_another(run: Run, path: str, others: int) -> None:
    async def body(client: aio.Client) -> None:
        slots = aio.Semaphore(client, path, 5)
        stack = AsyncExitStack()
        lease: aio.Lease = await in_a_task(lambda: stack.enter_async_context(slots))
        async with AsyncExitStack() as bodies:
            inside = [
                await bodies.enter_async_context(contextlib.asynccontextmanager(async_rows)(slots))
                for _ in range(others)
            ]
            await in_a_task(stack.aclose)
            assert lease.state == "released"
            for body in inside:
                body.check()

    run(body)


def test_an_exit_among_scopes_of_several_ended_owners_is_refused(client: zklock.Client, path: str) -> None:
    slots = zklock.Semaphore(client, path, 5)
    stacks = [ExitStack(), ExitStack()]
    leases = [in_a_thread(partial(stack.enter_context, slots)) for stack in stacks]
    with pytest.raises(zklock.NotHeld, match="this thread has no open scope"):
        stacks[0].close()
    assert [lease.state for lease in leases] == ["held", "held"]


@pytest.mark.parametrize("kind", [name for name in SHARED if name != "hold"])
def test_an_exit_of_another_thread_is_refused(client: zklock.Client, path: str, kind: str) -> None:
    shared = SHARED[kind](client, path)

    def leave() -> None:
        with pytest.raises(zklock.NotHeld, match="this thread has no open scope"):
            shared.__exit__(None, None, None)
        # The error of the body takes precedence.
        error = ValueError()
        shared.__exit__(ValueError, error, None)

    with shared as lease:
        in_a_thread(leave)
        lease.check()


@pytest.mark.parametrize("kind", [name for name in SHARED_AIO if name != "hold"])
def test_an_exit_of_another_task_is_refused(run: Run, path: str, kind: str) -> None:
    async def body(client: aio.Client) -> None:
        shared = SHARED_AIO[kind](client, path)

        async def leave() -> None:
            with pytest.raises(zklock.NotHeld, match="this task has no open scope"):
                await shared.__aexit__(None, None, None)

        async with shared as lease:
            await in_a_task(leave)
            lease.check()

    run(body)


def test_a_hold_that_was_entered_once_may_be_left_by_any_owner(client: zklock.Client, path: str) -> None:
    """An exit stack can be moved between threads that are still running."""
    lock = zklock.Semaphore(client, path, 5)
    with ThreadPoolExecutor(1) as pool, lock as own:
        stack = ExitStack()
        lease = pool.submit(stack.enter_context, lock.hold(timeout=5)).result(timeout=20)
        stack.close()
        assert lease.state == "released"
        own.check()


def test_a_hold_of_asyncio_that_was_entered_once_may_be_left_by_any_owner(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Semaphore(client, path, 5)
        async with lock as own:
            stack = AsyncExitStack()
            lease = await stack.enter_async_context(lock.hold(timeout=5))
            await in_a_task(stack.aclose)
            assert lease.state == "released"
            own.check()

    run(body)


def test_a_hold_ends_no_scope_of_its_lock(client: zklock.Client, path: str) -> None:
    lock = zklock.Semaphore(client, path, 5)
    hold = lock.hold(timeout=5)
    stack = ExitStack()
    lease = stack.enter_context(lock)
    hold.__exit__(None, None, None)
    lease.check()
    stack.close()
    assert lease.state == "released"
