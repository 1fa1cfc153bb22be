"""Event loops that end, are garbage-collected, or are one of several."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from selectors import BaseSelector
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
    """An event loop that tells when another thread has woken it, and that can be held up meanwhile.

    It is none of asyncio's own, so it has no bell.
    """

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
        # The loop was still open when it was asked.
        if not self.go_on.is_set():
            self.in_the_middle.set()
            assert self.go_on.wait(WAIT)
        handle: asyncio.Handle = super()._call_soon(*args)  # type: ignore[misc]
        return handle


def turn(event_loop: asyncio.SelectorEventLoop) -> None:
    """Do what there is to do, once."""
    event_loop.stop()
    event_loop.run_forever()


def selector(event_loop: asyncio.SelectorEventLoop) -> BaseSelector:
    """What the loop waits with."""
    found: BaseSelector = event_loop._selector  # type: ignore[attr-defined]
    return found


def await_woken(event_loop: asyncio.SelectorEventLoop) -> None:
    """Return when the loop has something to do, without doing it."""
    if isinstance(event_loop, Loop):
        assert event_loop.woken.wait(WAIT)
    else:
        assert selector(event_loop).select(WAIT)


@pytest.fixture
def slow_loop() -> Iterator[Loop]:
    """An event loop that can be held up."""
    made = Loop()
    yield made
    made.close()


@pytest.fixture(params=[Loop, asyncio.SelectorEventLoop], ids=["woken by a thread", "with a bell"])
def event_loop(request: pytest.FixtureRequest) -> Iterator[asyncio.SelectorEventLoop]:
    """An event loop that the test closes."""
    made: asyncio.SelectorEventLoop = request.param()
    yield made
    made.close()


Wait = Callable[[asyncio.SelectorEventLoop], Callable[[], None]]


@pytest.fixture
def wait(client: zklock.Client, hosts: str, observer: Observer, path: str) -> Iterator[Wait]:
    """Has a task of an event loop wait for a lock, and returns what grants it; the task never takes it."""
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting: list[asyncio.Task[object]] = []

    def begin(event_loop: asyncio.SelectorEventLoop) -> Callable[[], None]:
        waiting.append(event_loop.create_task(acquire(aio.Mutex(hosts, path))))
        turn(event_loop)
        observer.wait_queue(path, 2)
        return held.release

    yield begin
    assert not any(task.done() for task in waiting)


def test_a_loop_that_is_closed_releases_what_arrives(
    observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop, wait: Wait
) -> None:
    grant = wait(event_loop)
    event_loop.close()
    grant()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_with_the_wake_up_in_it_releases(
    observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop, wait: Wait
) -> None:
    wait(event_loop)()
    await_woken(event_loop)
    event_loop.close()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_while_it_is_woken_releases(
    observer: Observer, path: str, slow_loop: Loop, wait: Wait
) -> None:
    """The wake-up is put into the loop after it has thrown out what was there."""
    grant = wait(slow_loop)
    slow_loop.go_on.clear()
    grant()
    assert slow_loop.in_the_middle.wait(WAIT)
    slow_loop.close()
    slow_loop.go_on.set()
    observer.wait_queue(path, 0)


def test_a_loop_that_is_closed_before_the_woken_task_runs_releases(
    observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop, wait: Wait
) -> None:
    """The loop has come for the outcome, and thrown out the task's turn to take it."""
    wait(event_loop)()
    await_woken(event_loop)
    turn(event_loop)
    assert len(observer.queue(path)) == 1
    event_loop.close()
    observer.wait_queue(path, 0)


def test_what_a_woken_task_has_taken_stays(
    client: zklock.Client, hosts: str, observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop
) -> None:
    lock = aio.Mutex(hosts, path)
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting = event_loop.create_task(acquire(lock))
    turn(event_loop)
    observer.wait_queue(path, 2)
    held.release()
    assert event_loop.run_until_complete(waiting)
    assert not selector(event_loop).select(0), "it is not woken again"
    event_loop.close()
    assert "not held" not in repr(lock)
    assert len(observer.queue(path)) == 1


def test_outcomes_that_come_while_a_loop_is_busy_all_arrive(
    hosts: str, path: str, event_loop: asyncio.SelectorEventLoop
) -> None:
    """All that has come is there when the loop gets to it, and what comes later wakes it again."""

    async def again_and_again(name: str) -> bool:
        lock = aio.Mutex(hosts, f"{path}-{name}")
        for _ in range(20):
            async with lock:
                # The others' outcomes come meanwhile.
                time.sleep(0.001)
        return True

    async def together() -> list[bool]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(again_and_again(str(number)) for number in range(20)))

    assert all(event_loop.run_until_complete(together()))


def test_what_takes_several_steps_goes_on_while_its_loop_is_busy(
    hosts: str, observer: Observer, path: str, event_loop: asyncio.SelectorEventLoop
) -> None:
    """A permit is acquired in a turn that others wait for."""

    async def body() -> None:
        semaphore = aio.Semaphore(hosts, path, 1)
        acquiring = asyncio.create_task(acquire(semaphore))
        await asyncio.sleep(0)
        # The loop does nothing else meanwhile.
        observer.wait_queue(f"{path}/leases", 1)
        observer.wait_queue(f"{path}/locks", 0)
        assert await acquiring
        await semaphore.release()

    event_loop.run_until_complete(body())


def test_asyncios_own_loop_has_a_bell_until_it_is_closed(hosts: str, path: str) -> None:
    """No thread of Python's is woken for it. A child's has none: it may run a loop of its parent's."""
    done = scripts.run(
        """
        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        async def hold():
            async with aio.Mutex(hosts, path):
                pass

        async def use():
            async with aio.Mutex(hosts, path):
                # Waits for certain: an outcome that is there already needs no bell.
                waiting = asyncio.create_task(hold())
                await asyncio.sleep(0)
                waits_for = len(asyncio.get_running_loop()._selector.get_map())
            await waiting
            return waits_for

        with zklock.Mutex(hosts, path):
            before = descriptors()
        print({asyncio.run(use()) for _ in range(4)})
        deadline = time.monotonic() + 20
        # The library's thread may still have the bell that it rang last.
        while descriptors() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        print(descriptors() - before)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            print("in a child", asyncio.run(use()))
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        """,
        hosts,
        path,
    )
    # A loop waits for its own socket, too.
    assert done.stdout.splitlines() == ["{2}", "0", "in a child 1"], done


def test_a_loop_where_another_one_was_has_a_bell_of_its_own(hosts: str, path: str) -> None:
    """The library's thread has rung for a loop, and still has its bell when that loop is gone."""
    done = scripts.run(
        """
        with zklock.Mutex(hosts, path):
            pass
        # On one processor, with that thread behind: whoever it wakes goes on at once, and it does not.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), os.sched_getaffinity(0))
            if open(f"/proc/self/task/{task}/comm").read().strip() == "zklock":
                os.setpriority(os.PRIO_PROCESS, int(task), 5)

        async def use():
            async with asyncio.timeout(60), aio.Mutex(hosts, path):
                pass

        for _ in range(300):
            asyncio.run(use())
        print("done")
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "done", done


def test_without_file_descriptors_for_a_bell_a_loop_is_told_by_a_thread(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        with zklock.Mutex(hosts, path):
            pass

        async def use():
            async with asyncio.timeout(20), aio.Mutex(hosts, path):
                return len(asyncio.get_running_loop()._selector.get_map())

        event_loop = asyncio.SelectorEventLoop()
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            # A bell takes two.
            os.close(taken.pop())
        print(event_loop.run_until_complete(use()))
        for descriptor in taken:
            os.close(descriptor)
        event_loop.close()
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "1", done


@pytest.mark.parametrize("of", ["asyncio.SelectorEventLoop", "Loop"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_forgotten_with_the_wake_up_in_it_releases(hosts: str, path: str, of: str) -> None:
    """Neither closed nor run again: a garbage collector sees the loop, the wake-up and the task."""
    done = scripts.run(
        """
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
        event_loop = OF()
        event_loop.set_exception_handler(lambda *_: None)
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
        event_loop.stop()
        event_loop.run_forever()
        while len(held.contenders()) < 2:
            time.sleep(0.01)
        held.release()
        Loop.woken.wait(20) if type(event_loop) is Loop else event_loop._selector.select(20)
        del event_loop, waiting
        deadline = time.monotonic() + 20
        while held.contenders() and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        print(held.contenders())
        """.replace("OF", of),
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


def test_a_task_that_stands_in_a_scope_can_be_collected_with_its_loop(hosts: str, path: str) -> None:
    """The lock keeps the scope, the scope its task, and the task the lock: a garbage collector sees it."""
    done = scripts.run(
        """
        import gc, weakref

        async def hold(lock):
            async with lock:
                # Nobody waits for that to end: its timer lets the event loop know of the task.
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
        def names():
            tasks = os.listdir("/proc/self/task")
            return sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks)

        lock = zklock.Mutex(hosts, path)
        lock.acquire()
        lock.release()
        print(names()[1:])

        async def main():
            async with aio.Mutex(hosts, path):
                pass
            print(names()[1:])

        asyncio.run(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["['zklock']", "['zklock', 'zklock-deliver']"], done


def test_a_busy_interpreter_does_not_stop_the_session(hosts: str, path: str) -> None:
    """The core's thread never waits for the interpreter: a program that blocks it for long keeps its lock."""
    done = scripts.run(
        """
        import ctypes
        client = zklock.Client(hosts, session_timeout=1)
        with zklock.Mutex(client, path) as lease:
            # Does not release the interpreter to other threads, unlike time.sleep.
            ctypes.PyDLL(None).sleep(3)
            lease.check()
            # Time is what is tested: a term, so one that was not extended is over.
            time.sleep(0.5)
            lease.check()
            print(client.state, lease.session_id == client.session_id)
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "connected True", done
