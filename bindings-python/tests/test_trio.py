"""In a trio task, a call that waits or needs asyncio raises an error, which names the alternative."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import scripts
import trio

import zklock
from zklock import aio
from zklock.compat import kazoo

NOWHERE = "127.0.0.1:1"


def test_locks_for_threads_are_refused(client: zklock.Client, path: str) -> None:
    lock, held = zklock.Mutex(client, path), zklock.Mutex(client, path + "-held")
    semaphore, election = zklock.Semaphore(client, path + "-s", 2), zklock.Election(client, path + "-e")
    held.acquire()
    waits: list[Callable[[], object]] = [
        lock.acquire,
        lock.__enter__,
        lock.hold(timeout=5).__enter__,
        zklock.MultiLock([lock]).acquire,
        lambda: semaphore.acquire_many(1),
        election.campaign,
        election.lead().__enter__,
        lambda: zklock.Client(NOWHERE),
        kazoo.Lock(client, path + "-k").acquire,
    ]

    async def main() -> None:
        for wait in waits:
            with pytest.raises(RuntimeError, match="does not support trio") as caught:
                wait()
            assert "await trio.to_thread.run_sync(function)" in str(caught.value)
        # A held lock can still be released, and calls that send nothing are not refused.
        assert client.state == "connected"
        client.close()

    trio.run(main)
    assert not lock.owned()


def test_a_thread_of_trio_may_use_them(client: zklock.Client, path: str) -> None:
    def work() -> int:
        with zklock.Mutex(client, path) as lease:
            return lease.fencing_token

    async def main() -> int:
        return await trio.to_thread.run_sync(work)

    assert trio.run(main) > 0
    # Nothing is refused once trio has ended.
    assert work() > 0


def test_zklock_aio_says_that_it_needs_asyncio() -> None:
    lock, client = aio.Mutex(NOWHERE, "/a"), aio.Client(NOWHERE)
    election = aio.Election(NOWHERE, "/e")
    uses: list[Callable[[], Awaitable[object]]] = [
        lock.acquire,
        lock.__aenter__,
        lock.locked,
        lock.contenders,
        client.connect,
        client.__aenter__,
        election.campaign,
        election.lead().__aenter__,
        election.leader,
        aio.Semaphore(NOWHERE, "/s", 2).acquire_many(1).__aenter__,
    ]

    async def main() -> None:
        for use in uses:
            with pytest.raises(RuntimeError, match=r"^zklock\.aio needs asyncio, and trio runs"):
                await use()

    trio.run(main)


def test_without_any_event_loop_it_says_so_too() -> None:
    done = scripts.run(
        """
        lock = aio.Mutex("127.0.0.1:1", "/a")
        for use in (lock.acquire, lambda: lock.locked().send(None)):
            try:
                use()
            except RuntimeError as error:
                print(error)
        """
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("zklock.aio needs asyncio, and none of its event loops runs on this thread")
