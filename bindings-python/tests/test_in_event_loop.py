"""A blocking acquire in a running event loop causes one warning for each call site."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable

import pytest
import scripts

import zklock
from zklock.compat import kazoo

TEXT = "no task of this loop runs"


def test_the_first_acquire_of_each_place_is_warned_of(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    async def main() -> None:
        for _ in range(3):
            with lock:
                pass
        lock.acquire()
        lock.release()

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(main())
    assert [warning.category for warning in found] == [RuntimeWarning, RuntimeWarning]
    assert all(TEXT in str(warning.message) for warning in found)
    # The place where the program acquires.
    assert [warning.filename for warning in found] == [__file__, __file__]
    first = main.__code__.co_firstlineno
    assert [warning.lineno - first for warning in found] == [2, 4]


def test_every_way_to_wait_is_warned_of(client: zklock.Client, path: str) -> None:
    lock, semaphore = zklock.Mutex(client, path), zklock.Semaphore(client, path + "-s", 2)
    election, single = (
        zklock.Election(client, path + "-e"),
        zklock.Mutex(client, path + "-x", reentrant=False),
    )

    @lock
    def decorated() -> None:
        """Hold the lock."""

    ways: list[Callable[[], object]] = [
        lambda: lock.hold(timeout=5).__enter__(),
        lambda: single.acquire(),
        lambda: zklock.MultiLock([zklock.Mutex(client, path + "-m")]).acquire(),
        lambda: semaphore.acquire(),
        lambda: semaphore.acquire_many(1),
        lambda: election.campaign(),
        lambda: lock.release() or decorated(),
        lambda: kazoo.Lock(client, path + "-k").acquire(),
    ]

    async def main() -> None:
        for way in ways:
            with pytest.warns(RuntimeWarning, match=TEXT):
                way()

    asyncio.run(main())


def test_neither_entering_again_nor_a_thread_without_a_loop_is_warned_of(
    client: zklock.Client, path: str
) -> None:
    lock = zklock.Mutex(client, path)

    def elsewhere() -> None:
        with zklock.Mutex(client, path + "-elsewhere"):
            pass

    async def main() -> None:
        with lock:
            pass
        await asyncio.to_thread(elsewhere)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lock:
            asyncio.run(main())
        elsewhere()


def test_a_warning_that_is_an_error_leaves_nothing_held(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(RuntimeWarning, match=TEXT):
                lock.acquire()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
    assert not lock.locked()


def test_gevent_s_greenlets_and_notebooks_are_not_warned_of(hosts: str, path: str) -> None:
    programs = {
        "gevent": """
            import gevent
            gevent.sleep(0)
            """,
        "notebook": """
            import types
            sys.modules["ipykernel"] = types.ModuleType("ipykernel")
            """,
    }
    for name, preparation in programs.items():
        done = scripts.run(
            preparation
            + """
            async def main():
                with zklock.Mutex(hosts, path):
                    print("held")
            asyncio.run(main())
            """,
            hosts,
            path,
        )
        assert (done.stdout, done.stderr) == ("held\n", ""), name
