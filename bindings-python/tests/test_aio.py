"""What is particular to asyncio: tasks as owners, cancellation, and event loops that end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scripts
from conftest import Run
from harness.observer import Observer

import zklock
from zklock import aio


async def in_a_task(awaitable: Callable[[], Awaitable[Any]]) -> Any:
    """Do something as another owner."""

    async def work() -> Any:
        return await awaitable()

    return await asyncio.create_task(work())


async def acquire(lock: aio.Mutex) -> bool:
    """Acquire for the task that runs this."""
    return await lock.acquire()


async def queued(observer: Observer, path: str, length: int) -> None:
    """Wait until the lock has so many contenders."""
    await asyncio.to_thread(observer.wait_queue, path, length)


def test_making_a_client_does_nothing(hosts: str, path: str) -> None:
    async def main() -> None:
        client = aio.Client(hosts)
        assert (client.state, client.session_id) == ("idle", 0)
        async with aio.Mutex(client, path) as lease:
            assert lease.session_id == client.session_id != 0
        assert client.state == "connected"
        await client.close()
        assert client.state == "closed"
        await client.close()

    asyncio.run(main())


def test_connecting(hosts: str) -> None:
    async def main() -> None:
        client = aio.Client(hosts)
        assert await client.connect() is client
        assert client.state == "connected"
        async with client:
            pass
        with pytest.raises(zklock.ClientClosed):
            await client.connect()
        started = time.monotonic()
        with pytest.raises(zklock.ConnectionFailed):
            await aio.Client("127.0.0.1:1", connect_timeout=0.3).connect()
        assert time.monotonic() - started < 1

    asyncio.run(main())


def test_the_event_loop_runs_while_a_task_waits(run: Run, other: zklock.Client, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert not await lock.acquire(timeout=0.5)
        ticking.cancel()
        assert ticks > 20

    with zklock.Mutex(other, path):
        run(body)


def test_the_owner_is_the_task(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        assert await lock.acquire(blocking=False)
        assert lock.owned()

        async def child() -> None:
            assert not lock.owned()
            assert lock.lease is None
            assert not await lock.acquire(blocking=False)
            with pytest.raises(zklock.NotHeld):
                await lock.release()

        await asyncio.create_task(child())
        await lock.release()
        assert lock.owned()
        await lock.release(wait=False)
        assert not lock.owned()
        with pytest.raises(zklock.NotHeld):
            await lock.release()

    run(body)


def test_the_caller_is_the_owner_whoever_awaits(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await asyncio.wait_for(lock.acquire(), 5)
        assert lock.owned()
        assert await asyncio.create_task(lock.acquire())
        assert all(await asyncio.gather(lock.acquire(), lock.acquire()))
        async with asyncio.timeout(5):
            assert await lock.acquire()
        for _ in range(5):
            assert lock.owned()
            await lock.release()
        assert not lock.owned()

    run(body)


def test_outside_a_task(hosts: str, path: str) -> None:
    lock = aio.Mutex(hosts, path)
    for call in (lock.acquire, lock.owned, lock.release, lambda: lock.lease):
        with pytest.raises(RuntimeError):
            call()

    async def main() -> None:
        failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def callback() -> None:
            try:
                lock.owned()
            except RuntimeError as error:
                failure.set_result(error)

        asyncio.get_running_loop().call_soon(callback)
        assert "task" in str(await failure)

    asyncio.run(main())


def test_cancelling_leaves_the_queue(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        waiting = asyncio.create_task(lock.acquire())
        await queued(observer, path, 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queued(observer, path, 1)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lock.acquire(), 0.3)
        await queued(observer, path, 1)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), lock:
                raise AssertionError("entered")
        await queued(observer, path, 1)
        assert lock.lease is None

    with zklock.Mutex(other, path):
        run(body)


def test_cancelling_in_the_tick_of_the_grant_releases(
    run: Run, other: zklock.Client, observer: Observer, path: str
) -> None:
    """The outcome is there, and the task is about to wake up when it is cancelled."""
    held = zklock.Mutex(other, path)

    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        for _ in range(5):
            assert held.acquire()
            waiting = asyncio.create_task(lock.acquire())
            await queued(observer, path, 2)
            # The grant arrives while the loop stands still, and its wake-up is what the loop does next.
            held.release()
            time.sleep(0.1)
            asyncio.get_running_loop().call_soon(waiting.cancel)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert lock.lease is None
            await queued(observer, path, 0)

    run(body)


@pytest.mark.parametrize("passes", range(5))
def test_cancelling_at_any_pass_of_the_loop_leaves_nothing(
    run: Run, observer: Observer, path: str, passes: int
) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        for delay in (0, 0.001, 0.003):
            waiting = asyncio.create_task(lock.acquire())
            await asyncio.sleep(delay)
            for _ in range(passes):
                await asyncio.sleep(0)
            if waiting.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            else:
                await lock.release()
            assert lock.lease is None
            await queued(observer, path, 0)

    run(body)


def test_a_cancelled_release_goes_on(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert await lock.acquire()
        # Cancelled before its first step.
        asyncio.create_task(lock.release()).cancel()
        assert not lock.owned()
        await queued(observer, path, 0)

    run(body)


def test_scopes(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        async with lock as outer:
            assert lock.lease is outer
            async with lock.hold(timeout=0) as inner:
                assert lock.lease is inner
                assert (inner.node, inner.fencing_token) == (outer.node, outer.fencing_token)
            assert lock.lease is outer
            assert not await asyncio.to_thread(zklock.Mutex(other, path).acquire, blocking=False)
        assert lock.lease is None
        assert observer.queue(path) == []
        # Released in the body.
        async with lock as lease:
            await lease.release()
            with pytest.raises(zklock.NotHeld):
                await lease.release()
        async with lock:
            await lock.release()
        hold = lock.hold(timeout=1)
        async with hold, hold:
            assert lock.owned()
        assert not lock.owned()

    run(body)


def test_a_hold_times_out(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        for timeout in (0, 0.2):
            started = time.monotonic()
            with pytest.raises(zklock.LockTimeout):
                async with aio.Mutex(client, path).hold(timeout=timeout):
                    raise AssertionError("entered")
            assert time.monotonic() - started < timeout + 0.2
        await queued(observer, path, 1)

    with zklock.Mutex(other, path):
        run(body)


def test_a_scope_may_end_in_another_task(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        await in_a_task(lock.__aenter__)
        await in_a_task(lambda: lock.__aexit__(None, None, None))
        assert await lock.acquire(blocking=False)
        await lock.release()

    run(body)


def test_a_lease_may_be_released_by_any_task_or_thread(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def by_a_task(lease: aio.Lease) -> None:
            await in_a_task(lease.release)

        async def by_a_thread(lease: aio.Lease) -> None:
            await asyncio.to_thread(lambda: asyncio.run(lease.release()))

        for release in (by_a_task, by_a_thread):
            assert await lock.acquire()
            lease = lock.lease
            assert lease is not None
            await release(lease)
            assert lock.lease is None
            assert observer.queue(path) == []

    run(body)


def test_tasks_take_turns(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock, inside, order = aio.Mutex(client, path), 0, []

        async def work(number: int) -> None:
            nonlocal inside
            async with lock as lease:
                inside += 1
                assert inside == 1
                order.append((lease.fencing_token, number))
                await asyncio.sleep(0)
                inside -= 1

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(work(number))
        assert order == sorted(order)
        assert [number for _, number in order] == list(range(50))

    run(body)


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
    # The grant follows the node by one reply. Then the wake-up is in the loop, which never runs again.
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


def test_a_closed_client(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path + "-2")
        assert await lock.acquire()
        lease = lock.lease
        assert lease is not None
        waiting = asyncio.create_task(aio.Mutex(client, path).acquire())
        await queued(observer, path, 2)
        await client.close()
        with pytest.raises(zklock.ClientClosed):
            await waiting
        assert lease.state == "lost"
        with pytest.raises(zklock.LockLost):
            lease.check()
        with pytest.raises(zklock.ClientClosed):
            await lock.acquire()
        await lock.release()

    with zklock.Mutex(other, path):
        run(body)


def test_representations(run: Run, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert repr(lock) == f"<zklock.aio.Mutex {path}>"
        assert repr(client) == f"<zklock.aio.Client connected, session {client.session_id:#x}>"
        async with lock as lease:
            assert repr(lease) == f"<zklock.aio.Lease {lease.node} held, token {lease.fencing_token}>"

    run(body)


def test_a_busy_interpreter_does_not_stop_the_session(hosts: str, path: str) -> None:
    """The core's thread never waits for the interpreter: one that is busy for long keeps its lock."""
    done = scripts.run(
        """
        import ctypes
        client = zklock.Client(hosts, session_timeout=1)
        with zklock.Mutex(client, path) as lease:
            # Does not let other threads have the interpreter, unlike time.sleep.
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
