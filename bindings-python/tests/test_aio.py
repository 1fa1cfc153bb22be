"""Behavior that is specific to asyncio: tasks as owners, and scopes."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Run
from harness.observer import Observer
from harness.steps import in_time
from tasks import in_a_task, queued

import zklock
from zklock import aio


def test_creating_a_client_does_not_connect(hosts: str, path: str) -> None:
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
        with in_time(0.3), pytest.raises(zklock.ConnectionFailed):
            await aio.Client("127.0.0.1:1", connect_timeout=0.3).connect()

    asyncio.run(main())


def test_the_event_loop_runs_while_a_task_waits(run: Run, other: zklock.Client, path: str) -> None:
    held = zklock.Mutex(other, path)

    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def tick() -> None:
            for _ in range(20):
                await asyncio.sleep(0.01)
            # Release the lock for the acquire below. This line is reached only if the loop keeps running
            # meanwhile.
            held.release()

        ticking = asyncio.create_task(tick())
        assert await lock.acquire(timeout=20)
        await ticking
        await lock.release()

    assert held.acquire()
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


def test_the_caller_is_the_owner_even_if_another_task_awaits(run: Run, path: str) -> None:
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
        observer.assert_free(path)
        # The body releases.
        async with lock as lease:
            await lease.release()
            with pytest.raises(zklock.NotHeld):
                await lease.release()
        async with lock:
            await lock.release()
        hold = lock.hold(timeout=10)
        async with hold, hold:
            assert lock.owned()
        assert not lock.owned()

    run(body)


def test_a_hold_times_out(run: Run, other: zklock.Client, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        for timeout in (0, 0.2):
            with in_time(timeout), pytest.raises(zklock.LockTimeout):
                async with aio.Mutex(client, path).hold(timeout=timeout):
                    raise AssertionError("entered")
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
            observer.assert_free(path)

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


def test_representations(run: Run, hosts: str, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        assert repr(lock) == f"<zklock.aio.Mutex {path} on {hosts}, not held>"
        assert repr(lock.hold()) == f"<zklock.aio.Hold of {lock!r}>"
        assert repr(client) == f"<zklock.aio.Client {hosts}, connected, session {client.session_id:#x}>"
        async with lock as lease:
            assert repr(lock) == f"<zklock.aio.Mutex {path} on {hosts}, held>"
            assert lease.mode == "mutex"
            assert repr(lease) == f"<zklock.aio.Lease {lease.node} held, token {lease.fencing_token}>"

    run(body)
