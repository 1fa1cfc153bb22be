"""Callbacks run on a separate thread. A callback that blocks delays only other callbacks."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import scripts
from conftest import Run
from harness.observer import Observer

import zklock
from zklock import aio


class Blocked:
    """A callback that blocks until the test ends it."""

    def __init__(self) -> None:
        self._begun, self._end = threading.Event(), threading.Event()

    def __call__(self, _: object) -> None:
        self._begun.set()
        assert self._end.wait(60)

    def begin(self, hosts: str) -> None:
        """Make a client call this callback, and wait until it blocks."""
        client = zklock.Client(hosts)
        client.on_state(self)
        client.close()
        assert self._begun.wait(20)

    def end(self) -> None:
        """Let it return."""
        self._end.set()


@pytest.fixture
def blocked(hosts: str) -> Iterator[Blocked]:
    """Provide a callback that blocks while the test runs."""
    callback = Blocked()
    callback.begin(hosts)
    yield callback
    callback.end()


def held(client: zklock.Client, path: str) -> zklock.Lease:
    """Acquire a lock, and return its lease."""
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    return lease


def put(received: queue.SimpleQueue[object], value: object, _: zklock.Lease) -> None:
    """Record that a callback was called."""
    received.put(value)


async def lose(lock: aio.Mutex, observer: Observer) -> None:
    """Wait in the body of a lock whose node an operator deletes."""
    async with lock as lease:
        observer.delete(lease.node)
        await asyncio.Event().wait()


@pytest.mark.usefixtures("blocked")
def test_a_loss_cancels_an_asyncio_body_while_a_callback_blocks(
    run: Run, observer: Observer, path: str
) -> None:
    async def body(client: aio.Client) -> None:
        with pytest.raises(zklock.LockLost):
            await lose(aio.Mutex(client, path), observer)

    run(body)


@pytest.mark.usefixtures("blocked")
def test_callbacks_of_asyncio_are_called(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        lease = lock.lease
        assert lease is not None
        received: asyncio.Queue[object] = asyncio.Queue()
        lease.on_lost(received.put_nowait)
        client.on_state(received.put_nowait)
        observer.delete(lease.node)
        assert await received.get() is lease
        await client.close()
        assert await received.get() == "closed"

    run(body)


@pytest.mark.usefixtures("blocked")
def test_outcomes_arrive_while_a_callback_blocks(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock, other = aio.Mutex(client, path), aio.Mutex(client, path)
        await lock.acquire()
        waiting = asyncio.create_task(other.acquire())
        await asyncio.sleep(0)
        await lock.release()
        assert await waiting

    run(body)


@pytest.mark.usefixtures("blocked")
def test_a_thread_can_wait_for_a_loss_while_a_callback_blocks(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lease = held(client, path)
    observer.delete(lease.node)
    assert lease.wait_lost(timeout=20)


def test_callbacks_keep_their_order(
    client: zklock.Client, blocked: Blocked, observer: Observer, path: str
) -> None:
    """After a callback that blocked, the delayed callbacks are called in the order of their events."""
    received: queue.SimpleQueue[object] = queue.SimpleQueue()
    lease = held(client, path)
    for number in range(3):
        lease.on_lost(partial(put, received, number))
    client.on_state(received.put)
    observer.delete(lease.node)
    assert lease.wait_lost(timeout=20)
    client.close()
    assert received.empty()
    blocked.end()
    assert [received.get(timeout=20) for _ in range(4)] == [0, 1, 2, "closed"]


def test_a_callback_that_is_cancelled_while_it_waits_is_not_called(
    client: zklock.Client, blocked: Blocked, observer: Observer, path: str
) -> None:
    received: queue.SimpleQueue[object] = queue.SimpleQueue()
    lease = held(client, path)
    notice = lease.on_lost(partial(put, received, "cancelled"))
    lease.on_lost(partial(put, received, "received"))
    observer.delete(lease.node)
    assert lease.wait_lost(timeout=20)
    notice.cancel()
    blocked.end()
    assert received.get(timeout=20) == "received"
    assert received.empty()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_exception_of_a_callback_stops_no_other_callback(hosts: str, error: type[BaseException]) -> None:
    received: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fail(_: str) -> None:
        raise error

    with zklock.Client(hosts) as client:
        client.on_state(fail)
        client.on_state(received.put)
    assert received.get(timeout=20) == "closed"


def test_a_callback_may_use_locks(client: zklock.Client, other: zklock.Client, path: str) -> None:
    """Callbacks have a separate thread, so a callback can wait until another thread releases a lock."""
    received: queue.SimpleQueue[str] = queue.SimpleQueue()

    def work(_: str) -> None:
        with zklock.Mutex(other, path) as lease:
            received.put(lease.state)

    client.on_state(work)
    with zklock.Mutex(other, path):
        client.close()
    assert received.get(timeout=20) == "held"


def test_callbacks_that_are_due_are_called_before_the_process_ends(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        client.on_state(lambda state: print(state, threading.current_thread().name))
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("closed zklock-callback\n", "", 0), done


def test_a_callback_that_blocks_does_not_stop_the_process_from_ending(hosts: str, path: str) -> None:
    """A blocked callback does not prevent the exit of the process, and does not make the process abort."""
    done = scripts.run(
        """
        client, begun = zklock.Client(hosts), threading.Event()
        def block(state):
            begun.set()
            # At its exit, the process waits one second for a running callback, so block for longer.
            time.sleep(1.5)
            while True:
                time.sleep(0.001)
        client.on_state(block)
        mutex = zklock.Mutex(client, path)
        mutex.acquire()
        client.close()
        begun.wait()
        """,
        hosts,
        path,
        timeout=20,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0), done


def test_a_forked_child_calls_its_own_callbacks(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        received = threading.Event()
        client = zklock.Client(hosts)
        client.on_state(lambda state: print("parent", state))
        if os.fork() == 0:
            own = zklock.Client(hosts)
            own.on_state(lambda state: [print("child", state), received.set()])
            own.close()
            print(received.wait(20))
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child closed", "True", "parent closed"], done
    assert done.returncode == 0, done
