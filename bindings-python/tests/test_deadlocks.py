"""Two owners that wait for each other, as reported by the timeout error."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
from harness.observer import Observer

import zklock
from zklock import aio

#: The search takes place in the last second.
AMPLE = 4.0


def assert_deadlock(error: zklock.LockTimeout, held: str, waited: str, name: str) -> None:
    """Check that the error contains the deadlock, also after it was pickled."""
    found = error.deadlock
    assert found is not None
    assert (found.held, found.waited) == (held, waited)
    assert found.other == error.blockers[0]
    assert found.other.owner is not None
    assert found.other.owner.name == name
    assert str(error).endswith(f"({name}) of this process holds {waited} and waits for {held}")
    again = pickle.loads(pickle.dumps(error))
    assert again.deadlock == found
    assert again.deadlock.other.node == found.other.node
    assert repr(found) == f"<zklock.Deadlock held {held}, waited {waited}>"


def test_two_threads_that_wait_for_each_other(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    first, second = f"{path}/a", f"{path}/b"
    ready = threading.Event()

    def wait() -> None:
        with zklock.Mutex(other, second):
            ready.set()
            with zklock.Mutex(other, first):
                pass

    thread = threading.Thread(target=wait, name="worker-2")
    with zklock.Mutex(client, first):
        thread.start()
        assert ready.wait(60)
        observer.wait_queue(first, 2)
        with pytest.raises(zklock.LockTimeout) as caught:
            zklock.Mutex(client, second).hold(timeout=AMPLE).__enter__()
        # `acquire` returns only False.
        assert not zklock.Mutex(client, second).acquire(timeout=0.1)
    thread.join(60)
    assert_deadlock(caught.value, first, second, "worker-2")


def test_two_tasks_that_wait_for_each_other(hosts: str, observer: Observer, path: str) -> None:
    first, second = f"{path}/a", f"{path}/b"

    async def wait(client: aio.Client, held: asyncio.Event) -> None:
        async with aio.Mutex(client, second):
            held.set()
            async with aio.Mutex(client, first):
                pass

    async def main() -> zklock.LockTimeout:
        async with aio.Client(hosts) as client:
            held = asyncio.Event()
            async with aio.Mutex(client, first):
                task = asyncio.create_task(wait(client, held), name="worker-2")
                await held.wait()
                await asyncio.to_thread(observer.wait_queue, first, 2)
                with pytest.raises(zklock.LockTimeout) as caught:
                    await aio.Mutex(client, second).hold(timeout=AMPLE).__aenter__()
            await task
            return caught.value

    assert_deadlock(asyncio.run(main()), first, second, "worker-2")


def test_a_lock_that_is_only_taken_is_no_deadlock(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    with zklock.Mutex(client, path), pytest.raises(zklock.LockTimeout) as caught:
        zklock.Mutex(other, path).hold(timeout=0.2).__enter__()
    assert caught.value.deadlock is None
