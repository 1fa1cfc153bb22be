"""The socket that wakes an event loop of asyncio."""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scripts
from harness.observer import Observer
from tasks import acquire

import zklock
from zklock import aio

pytestmark = pytest.mark.skipif(
    sys.platform == "win32",
    reason="the default event loop of Windows cannot watch a socket, so a thread wakes it",
)

WAIT = 20.0

Waiting = tuple[asyncio.Task[bool], Callable[[], None]]


@pytest.fixture
def event_loop() -> Iterator[asyncio.SelectorEventLoop]:
    """Provide an event loop of the class that has a doorbell."""
    made = asyncio.SelectorEventLoop()
    yield made
    made.close()


def selector(event_loop: Any) -> selectors.BaseSelector:
    """Return the selector with which the loop waits."""
    found: selectors.BaseSelector = event_loop._selector
    return found


def turn(event_loop: asyncio.SelectorEventLoop) -> None:
    """Run one iteration."""
    event_loop.stop()
    event_loop.run_forever()


def rung(event_loop: asyncio.SelectorEventLoop) -> list[int]:
    """Wait until a descriptor that the loop watches is readable. Return all of them."""
    return [key.fd for key, _ in selector(event_loop).select(WAIT)]


def bell(event_loop: Any) -> int:
    """Return the descriptor of the doorbell."""
    (found,) = {key.fd for key in selector(event_loop).get_map().values()} - {event_loop._ssock.fileno()}
    return found


@pytest.fixture
def waiting(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop
) -> Waiting:
    """Provide a task that waits for a lock, and a function that grants the lock."""
    held = zklock.Mutex(client, path)
    assert held.acquire()
    task = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
    turn(event_loop)
    observer.wait_queue(path, 2)
    return task, held.release


def test_a_task_continues_in_the_iteration_that_the_doorbell_begins(
    event_loop: asyncio.SelectorEventLoop, waiting: Waiting
) -> None:
    task, grant = waiting
    grant()
    assert rung(event_loop) == [bell(event_loop)]
    turn(event_loop)
    assert task.done()


def test_a_loop_that_is_closed_releases_what_arrives(
    observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop, waiting: Waiting
) -> None:
    _, grant = waiting
    event_loop.close()
    grant()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_after_its_doorbell_has_rung_releases(
    observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop, waiting: Waiting
) -> None:
    _, grant = waiting
    grant()
    assert rung(event_loop)
    event_loop.close()
    observer.wait_queue(path, 0)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_program_can_remove_the_doorbell(
    event_loop: asyncio.SelectorEventLoop, waiting: Waiting, before: bool
) -> None:
    """The watch is removed before or after the bell has rung. The delivery thread then wakes the loop."""
    task, grant = waiting
    number = bell(event_loop)
    if not before:
        grant()
        assert rung(event_loop)
    assert event_loop.remove_reader(number)
    if before:
        grant()
    assert event_loop.run_until_complete(asyncio.wait_for(task, WAIT))


def test_several_outcomes_arrive_while_the_loop_is_busy(hosts: str, path: str) -> None:
    async def use(number: int) -> None:
        for _ in range(20):
            async with aio.Mutex(hosts, f"{path}/{number}"):
                pass

    async def main() -> None:
        async with asyncio.timeout(WAIT), asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(use(number))

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


def test_a_process_that_exits_after_a_doorbell_has_rung_releases(
    hosts: str, observer: Observer, path: str
) -> None:
    """The loop is never closed, so its doorbell ends together with the interpreter."""
    done = scripts.run(
        """
        async def acquire(lock):
            return await lock.acquire()

        held = zklock.Mutex(hosts, path)
        held.acquire()
        event_loop = asyncio.SelectorEventLoop()
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
        event_loop.stop()
        event_loop.run_forever()
        while len(held.contenders()) < 2:
            time.sleep(0.01)
        held.release()
        assert event_loop._selector.select(20)
        print("rung")
        """,
        hosts,
        path,
    )
    # The interpreter warns that the loop is not closed and its task is pending.
    assert (done.stdout, done.returncode) == ("rung\n", 0), done
    assert "Fatal" not in done.stderr, done
    assert "panicked" not in done.stderr, done
    assert observer.queue(path) == []


def test_a_new_loop_at_the_address_of_an_old_one_has_its_own_doorbell(hosts: str, path: str) -> None:
    """The program keeps the callback of each doorbell, but not its loop."""
    done = scripts.run(
        """
        kept, addresses = [], set()

        async def use():
            event_loop = asyncio.get_running_loop()
            again = id(event_loop) in addresses
            async with asyncio.timeout(20), aio.Mutex(hosts, path):
                for key in event_loop._selector.get_map().values():
                    if key.fd != event_loop._ssock.fileno():
                        kept.append(key.data[0]._callback)
                        addresses.add(id(event_loop))
            return again

        print(any([asyncio.run(use()) for _ in range(50)]))
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "True", done
