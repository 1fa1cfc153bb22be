"""Event loops that are closed or garbage-collected, and several event loops in one process."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import TypeVarTuple

import pytest
import scripts
from conftest import Run
from harness.observer import WAIT, Observer
from tasks import acquire, queued

import zklock
from zklock import aio


def test_the_shared_client_outlives_event_loops(hosts: str, path: str) -> None:
    lock = aio.Mutex(hosts, path)

    async def use() -> int:
        async with lock as lease:
            return lease.session_id

    with zklock.Mutex(hosts, path + "-sync") as blocking:
        sessions = {asyncio.run(use()) for _ in range(3)}
        with ThreadPoolExecutor(1) as pool:
            sessions.add(pool.submit(asyncio.run, use()).result(timeout=20))
        assert sessions == {blocking.session_id}


_Ts = TypeVarTuple("_Ts")


class Loop(asyncio.SelectorEventLoop):
    """An event loop that reports wake-ups, and that the test can pause while it adds a callback."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = threading.Event()
        self.in_the_middle = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self.woken.set()
        return handle

    def _call_soon(self, *args: object) -> asyncio.Handle:
        # The loop was still open when it was called.
        if not self.go_on.is_set():
            self.in_the_middle.set()
            assert self.go_on.wait(WAIT)
        handle: asyncio.Handle = super()._call_soon(*args)  # type: ignore[misc]
        return handle

    def turn(self) -> None:
        """Run one iteration."""
        self.stop()
        self.run_forever()


@pytest.fixture
def event_loop() -> Iterator[Loop]:
    """Provide an event loop that the test closes."""
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def granted(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: Loop
) -> Iterator[Callable[[], None]]:
    """Provide a function that grants a lock to a waiting task of the event loop."""
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
    event_loop.turn()
    observer.wait_queue(path, 2)
    yield held.release
    assert not waiting.done()


def test_a_loop_that_is_closed_releases_what_arrives(
    observer: Observer, path: str, event_loop: Loop, granted: Callable[[], None]
) -> None:
    event_loop.close()
    granted()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_with_the_wake_up_in_it_releases(
    observer: Observer, path: str, event_loop: Loop, granted: Callable[[], None]
) -> None:
    granted()
    assert event_loop.woken.wait(WAIT)
    event_loop.close()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_while_it_is_woken_releases(
    observer: Observer, path: str, event_loop: Loop, granted: Callable[[], None]
) -> None:
    """A wake-up reaches the loop only after the loop has been closed and has discarded its callbacks."""
    event_loop.go_on.clear()
    granted()
    assert event_loop.in_the_middle.wait(WAIT)
    event_loop.close()
    event_loop.go_on.set()
    observer.wait_queue(path, 0)


def test_a_task_runs_within_the_wake_up_of_its_loop(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: Loop
) -> None:
    """One iteration of the loop is enough: no callback is left that a closed loop could discard."""
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
    event_loop.turn()
    observer.wait_queue(path, 2)
    event_loop.woken.clear()
    held.release()
    assert event_loop.woken.wait(WAIT)
    event_loop.turn()
    assert waiting.done()


def test_a_task_that_runs_its_loop_again_does_not_stop_the_others(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: Loop
) -> None:
    """Some programs run a loop inside of a task. Two outcomes arrive in one wake-up."""
    held = [zklock.Mutex(client, f"{path}/{name}") for name in "ab"]
    for lock in held:
        assert lock.acquire()
    order = []

    async def wait(lock: aio.Mutex) -> None:
        await lock.acquire()
        order.append("acquired")
        if len(order) == 1:
            # Such programs leave the task for as long as the inner run lasts.
            task = asyncio.current_task()
            assert task is not None
            asyncio.tasks._leave_task(event_loop, task)
            asyncio._set_running_loop(None)
            while len(order) < 2:
                event_loop._run_once()  # type: ignore[attr-defined]
            asyncio._set_running_loop(event_loop)
            asyncio.tasks._enter_task(event_loop, task)

    locks = [aio.Mutex(hosts, f"{path}/{name}") for name in "ab"]
    tasks = [event_loop.create_task(wait(lock)) for lock in locks]
    event_loop.turn()
    for name in "ab":
        observer.wait_queue(f"{path}/{name}", 2)
    event_loop.woken.clear()
    for lock in held:
        lock.release()
    for name in "ab":
        observer.wait_queue(f"{path}/{name}", 1)
    event_loop.run_until_complete(asyncio.gather(*tasks))
    assert order == ["acquired", "acquired"]


def test_a_loop_that_is_closed_before_its_task_takes_what_another_handed_on_releases(
    hosts: str, observer: Observer, path: str, event_loop: Loop
) -> None:
    """The lock was handed to the waiting task, but the loop discards the callback that wakes the task."""
    lock = aio.Mutex(hosts, path, cohort=2)

    async def take() -> aio.Lease | None:
        await lock.acquire()
        return lock.lease

    held = event_loop.run_until_complete(take())
    assert held is not None
    waiting = event_loop.create_task(acquire(lock))
    while len(lock.client.health().waits) != 1:
        event_loop.turn()
    handed_on = lock.client.stats().handoffs
    event_loop.woken.clear()
    event_loop.call_soon(held.release)
    event_loop.turn()
    assert lock.client.stats().handoffs == handed_on + 1
    assert not event_loop.woken.is_set()
    # This client shares one node among its waiters. It deletes the node when no waiter is left.
    observer.wait_queue(path, 1)
    event_loop.close()
    observer.wait_queue(path, 0)
    assert not waiting.done()


def test_a_lock_that_a_woken_task_has_taken_stays_held(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: Loop
) -> None:
    lock = aio.Mutex(hosts, path)
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting = event_loop.create_task(acquire(lock))
    event_loop.turn()
    observer.wait_queue(path, 2)
    held.release()
    assert event_loop.run_until_complete(waiting)
    event_loop.close()
    assert "not held" not in repr(lock)
    assert len(observer.queue(path)) == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("create", "await_wake_up"),
    [
        pytest.param(
            "asyncio.SelectorEventLoop()",
            "event_loop._selector.select(20)",
            id="doorbell",
            marks=pytest.mark.skipif(
                sys.platform == "win32",
                reason="the default event loop of Windows cannot watch a socket, so a thread wakes it",
            ),
        ),
        pytest.param("Loop()", "Loop.woken.wait(20)", id="delivery thread"),
    ],
)
def test_a_loop_that_is_forgotten_with_the_wake_up_in_it_releases(
    hosts: str, path: str, create: str, await_wake_up: str
) -> None:
    """The loop is never closed and never runs again. It is in a reference cycle, which must be collected."""
    done = scripts.run(
        f"""
        import gc

        async def acquire(lock):
            return await lock.acquire()

        class Loop(asyncio.SelectorEventLoop):
            woken = threading.Event()

            def call_soon_threadsafe(self, *args, **options):
                super().call_soon_threadsafe(*args, **options)
                self.woken.set()

        client = zklock.Client(hosts)
        held = zklock.Mutex(client, path)
        held.acquire()
        event_loop = {create}
        event_loop.set_exception_handler(lambda *_: None)
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
        event_loop.stop()
        event_loop.run_forever()
        while len(held.contenders()) < 2:
            time.sleep(0.01)
        held.release()
        {await_wake_up}
        del event_loop, waiting
        deadline = time.monotonic() + 20
        while held.contenders() and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        print(held.contenders())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "[]", done


def test_a_lock_that_is_collected_releases(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        assert await lock.acquire()
        del lock
        gc.collect()
        await queued(observer, path, 0)

    run(body)


def test_a_task_that_waits_can_be_collected_with_its_loop(
    client: zklock.Client, hosts: str, path: str
) -> None:
    done = scripts.run(
        """
        import gc, weakref

        async def acquire(lock):
            return await lock.acquire()

        held = zklock.Mutex(zklock.Client(hosts), path)
        held.acquire()
        event_loop = asyncio.new_event_loop()
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
        event_loop.run_until_complete(asyncio.sleep(0.1))
        event_loop.set_exception_handler(lambda *_: None)
        task = weakref.ref(waiting)
        event_loop.close()
        del waiting, event_loop
        held.release()
        deadline = time.monotonic() + 5
        while task() and time.monotonic() < deadline:
            time.sleep(0.01)
            gc.collect()
        print(task())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "None", done


def test_a_task_inside_a_scope_can_be_collected_with_its_loop(hosts: str, path: str) -> None:
    """The lock, the scope and its task form a reference cycle, which the garbage collector can find."""
    done = scripts.run(
        """
        import gc, weakref

        async def hold(lock):
            async with lock:
                # Never completes. Its timer gives the event loop a reference to the task.
                await asyncio.sleep(3600)

        event_loop = asyncio.new_event_loop()
        holding = event_loop.create_task(hold(aio.Mutex(hosts, path)))
        other = zklock.Mutex(hosts, path)
        while not other.locked():
            event_loop.run_until_complete(asyncio.sleep(0.01))
        event_loop.set_exception_handler(lambda *_: None)
        task = weakref.ref(holding)
        event_loop.close()
        del holding, event_loop
        deadline = time.monotonic() + 5
        while task() and time.monotonic() < deadline:
            time.sleep(0.01)
            gc.collect()
        print(task(), other.acquire(timeout=5))
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "None True", done


def test_threads_after_use(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        def name(task):
            with open(f"/proc/self/task/{task}/comm") as file:
                return file.read().strip()

        def names():
            # A thread sets its own name. Until then it has the name of the main thread.
            own = name(os.getpid())
            while (names := [name(task) for task in os.listdir("/proc/self/task")]).count(own) > 1:
                time.sleep(0.01)
            return sorted(set(names) - {own})

        lock = zklock.Mutex(hosts, path)
        lock.acquire()
        lock.release()
        print(names())

        async def main():
            async with aio.Mutex(hosts, path):
                pass
            print(names())

        asyncio.run(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["['zklock']", "['zklock', 'zklock-deliver']"], done


def test_a_busy_interpreter_does_not_stop_the_session(hosts: str, path: str) -> None:
    """A program that blocks the interpreter keeps its lock: heartbeats do not need the interpreter."""
    done = scripts.run(
        """
        import ctypes
        client = zklock.Client(hosts, session_timeout=2)
        with zklock.Mutex(client, path) as lease:
            # Does not release the interpreter to other threads, unlike time.sleep.
            ctypes.PyDLL(None).sleep(3)
            lease.check()
            # Sleep for the length of a term: a term that was not extended is over then.
            time.sleep(1)
            lease.check()
            print(client.state, lease.session_id == client.session_id)
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "connected True", done
