"""Locks as decorators."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Run

import zklock
from zklock import aio


def test_every_call_is_a_scope(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    @lock
    def add(one: int, *, other: int = 1) -> int:
        """Adds."""
        assert lock.owned()
        return one + other

    assert add(1, other=2) == 3
    assert add(1) == 2
    assert not lock.owned()
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert str(inspect.signature(add)) == "(one: 'int', *, other: 'int' = 1) -> 'int'"
    assert client.stats().acquisitions == 2


def test_an_exception_propagates_and_releases(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    @lock
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not lock.locked()


def test_recursion_re_enters_and_other_threads_wait(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    inside: list[str] = []

    @lock
    def nested(depth: int) -> None:
        inside.append("enter")
        if depth:
            nested(depth - 1)
        inside.append("leave")

    threads = [threading.Thread(target=nested, args=(2,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == (["enter"] * 3 + ["leave"] * 3) * 4
    assert client.stats().acquisitions == 4


def test_a_time_out_raises_and_does_not_call(client: zklock.Client, other: zklock.Client, path: str) -> None:
    @zklock.Mutex(client, path).hold(timeout=0.1)
    def never() -> None:
        raise AssertionError

    with zklock.Mutex(other, path), pytest.raises(zklock.LockTimeout):
        never()


def test_methods_and_every_kind_of_lock(client: zklock.Client, path: str) -> None:
    both = zklock.ReadWriteLock(client, path)
    slots = zklock.Semaphore(client, path + "-2", 2)

    class Catalogue:
        @both.read_lock
        def read(self) -> bool:
            return both.read_lock.owned()

        @staticmethod
        @both.write_lock
        def write() -> bool:
            return both.write_lock.owned()

        @zklock.MultiLock([both.write_lock, slots]).hold(timeout=10)
        def everything(self) -> bool:
            return both.write_lock.owned()

    catalogue = Catalogue()
    assert catalogue.read()
    assert catalogue.write()
    assert catalogue.everything()


class AsyncCallable:
    async def __call__(self) -> None: ...


async def coroutine_function() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (coroutine_function, "coroutine_function is an async function, .* zklock.aio"),
        (functools.partial(coroutine_function), "zklock.aio"),
        (staticmethod(coroutine_function), "zklock.aio"),
        (AsyncCallable(), "zklock.aio"),
        (generator, "generator is a generator, .* inside it"),
        (async_generator, "inside it"),
        (5, "decorates functions, not 5"),
        (AsyncCallable, "decorates functions, not AsyncCallable"),
    ],
)
def test_a_function_that_would_run_after_the_release_is_refused(
    function: Any, problem: str, hold: bool
) -> None:
    lock = zklock.Mutex("a", "/a")
    with pytest.raises(TypeError, match=problem):
        (lock.hold() if hold else lock)(function)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (generator, "inside it"),
        (async_generator, "inside it"),
        (len, "len is not an async function, .* a lock of zklock$"),
    ],
)
def test_asyncio_decorates_async_functions(function: Any, problem: str, hold: bool) -> None:
    lock = aio.Mutex("a", "/a")
    with pytest.raises(TypeError, match=problem):
        (lock.hold() if hold else lock)(function)


def test_asyncio(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        inside: list[str] = []

        @lock
        async def nested(depth: int) -> bool:
            """Goes down."""
            inside.append("enter")
            await asyncio.sleep(0)
            if depth:
                await nested(depth - 1)
            inside.append("leave")
            return lock.owned()

        assert await asyncio.gather(*(nested(1) for _ in range(3))) == [True] * 3
        assert inside == (["enter"] * 2 + ["leave"] * 2) * 3
        assert (nested.__name__, nested.__doc__) == ("nested", "Goes down.")
        assert inspect.iscoroutinefunction(nested)
        assert not lock.owned()

        async def owned() -> bool:
            return lock.owned()

        assert await lock.hold(timeout=10)(owned)()
        async with lock:
            with pytest.raises(zklock.LockTimeout):
                await asyncio.create_task(lock.hold(timeout=0.1)(owned)())

    run(body)
