"""Event loops that end, are garbage-collected, or are one of several."""

from __future__ import annotations

import asyncio
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import scripts
from conftest import Run
from harness.observer import Observer
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


def test_a_loop_that_is_closed_releases_what_arrives(
    client: zklock.Client, hosts: str, observer: Observer, path: str
) -> None:
    event_loop = asyncio.new_event_loop()
    held = zklock.Mutex(client, path)
    assert held.acquire()
    waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
    event_loop.run_until_complete(asyncio.sleep(0))
    observer.wait_queue(path, 2)
    event_loop.close()
    held.release()
    observer.wait_queue(path, 0)
    assert not waiting.done()
    del waiting


def test_a_loop_that_is_closed_with_the_wake_up_in_it_releases(
    hosts: str, observer: Observer, path: str
) -> None:
    event_loop = asyncio.new_event_loop()
    waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
    event_loop.run_until_complete(asyncio.sleep(0))
    observer.wait_queue(path, 1)
    # The grant comes one reply after the node. Then the wake-up is in the loop, which never runs again.
    time.sleep(0.3)
    event_loop.close()
    observer.wait_queue(path, 0)
    assert not waiting.done()
    del waiting


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
            time.sleep(0.5)
            lease.check()
            print(client.state, lease.session_id == client.session_id)
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "connected True", done
