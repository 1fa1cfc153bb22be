"""The Python interface of `Semaphore`: releases, scopes, and refused arguments."""

from __future__ import annotations

import asyncio
import gc
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import scripts
from conftest import Run
from harness.observer import Observer
from harness.steps import eventually

import zklock
from zklock import aio


def held(observer: Observer, path: str) -> int:
    """Return the number of permits that are taken."""
    return len(observer.queue(f"{path}/leases"))


def test_permits_have_no_owner(client: zklock.Client, observer: Observer, path: str) -> None:
    slots = zklock.Semaphore(client, path, 2)
    assert not slots.owned()
    assert slots.acquire()
    first = slots.lease
    assert slots.acquire(timeout=5)
    assert slots.lease is not first
    assert slots.owned()
    assert not slots.acquire(blocking=False)
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(slots.acquire, False).result(20)
        assert pool.submit(slots.owned).result(20)
        # This releases the newest permit, for any caller.
        pool.submit(slots.release).result(20)
    assert slots.lease is first
    slots.release(wait=False)
    observer.wait_queue(f"{path}/leases", 0)
    with pytest.raises(zklock.NotHeld, match="is not held"):
        slots.release()


def test_scopes(client: zklock.Client, observer: Observer, path: str) -> None:
    slots = zklock.Semaphore(client, path, 2)
    with slots as one, slots.hold(timeout=5) as two:
        assert {one.path, two.path} == {path}
        assert one.node.startswith(f"{path}/leases/")
        assert one.node != two.node
        # Long enough to see that.
        with pytest.raises(zklock.LockTimeout, match="permits"), slots.hold(timeout=1):
            raise AssertionError("entered")
    assert held(observer, path) == 0


def test_many(client: zklock.Client, observer: Observer, path: str) -> None:
    slots = zklock.Semaphore(client, path, 3)
    with slots.acquire_many(3) as leases:
        assert len(leases) == len({lease.node for lease in leases}) == 3
        assert leases[0] is next(iter(leases))
        assert leases[-1] is leases[2]
        with pytest.raises(IndexError):
            leases[3]
        with pytest.raises(IndexError):
            leases[-4]
        with pytest.raises(zklock.LockTimeout):
            slots.acquire_many(1, blocking=False)
        leases.check()
        # The leases belong to the caller, and the semaphore does not track them.
        assert slots.lease is None
        leases[1].release()
        assert held(observer, path) == 2
        with pytest.raises(zklock.NotHeld):
            leases.check()
    assert held(observer, path) == 0
    with pytest.raises(zklock.NotHeld):
        leases.release()
    leases = slots.acquire_many(2, timeout=5)
    leases.release(wait=False)
    observer.wait_queue(f"{path}/leases", 0)
    forgotten = slots.acquire_many(2)
    del forgotten
    gc.collect()
    observer.wait_queue(f"{path}/leases", 0)


def test_a_scope_of_many_ends_with_a_loss(client: zklock.Client, observer: Observer, path: str) -> None:
    slots = zklock.Semaphore(client, path, 2)

    def work() -> None:
        with slots.acquire_many(2) as leases:
            # A lease that is held for long enough watches its node.
            observer.delete(leases[1].node)
            eventually(lambda: leases[1].state == "lost", "it knows")

    with pytest.raises(zklock.LockLost):
        work()
    assert held(observer, path) == 0


def test_a_scope_of_many_ends_with_a_loss_in_asyncio(run: Run, observer: Observer, path: str) -> None:
    async def lose_one(slots: aio.Semaphore) -> None:
        async with await slots.acquire_many(2) as leases:
            observer.delete(leases[1].node)
            assert await leases[1].wait_lost(timeout=10)

    async def body(client: aio.Client) -> None:
        with pytest.raises(zklock.LockLost):
            await lose_one(aio.Semaphore(client, path, 2))
        assert held(observer, path) == 0

    run(body)


def test_what_is_refused(client: zklock.Client, path: str, hosts: str) -> None:
    for wrong in (0, -1, 1 << 40):
        with pytest.raises(zklock.BadArgument, match="permits"):
            zklock.Semaphore(client, path, wrong)
    with pytest.raises(zklock.BadArgument, match="permits"):
        zklock.Semaphore(client, path)
    with pytest.raises(zklock.BadArgument, match="permits"):
        zklock.Semaphore(client, path, 1, shared_count="/count")
    with pytest.raises(zklock.BadArgument, match="shared_count"):
        aio.Semaphore("a:1", path, shared_count="count")
    with pytest.raises(TypeError):
        zklock.Semaphore(client, path, "3")  # type: ignore[arg-type]
    slots = zklock.Semaphore(client, path, 3)
    for count in (0, -1, 4, 1 << 40):
        with pytest.raises(zklock.BadArgument, match="count"):
            slots.acquire_many(count)
    with pytest.raises(zklock.BadArgument, match="timeout"):
        slots.acquire_many(1, timeout=-2)
    assert slots.permits == 3
    assert slots.shared_count is None
    assert repr(slots) == f"<zklock.Semaphore {path} on {hosts}, not held>"
    read = zklock.Semaphore(client, path, shared_count="/count")
    assert read.permits is None
    assert read.shared_count == "/count"


def test_who_contends(client: zklock.Client, observer: Observer, path: str) -> None:
    before = time.time()
    slots = zklock.Semaphore(client, path, 2, label="workers")
    assert not slots.locked()
    with slots:
        (one,) = slots.contenders()
        assert one.label == "workers"
        assert one.since is not None
        assert before - 1 <= one.since <= time.time() + 1
        assert one.session_id == client.session_id
        assert one.data == observer.client.get(one.node)[0]
        assert one == slots.contenders()[0]
        assert "workers" not in repr(one)
        assert one.node in repr(one)
        with pytest.raises(AttributeError):
            one.label = "other"  # type: ignore[misc]
        assert not slots.locked()
        with slots:
            assert slots.locked()


def test_other_threads_run_while_one_waits(client: zklock.Client, path: str) -> None:
    slots = zklock.Semaphore(client, path, 2)
    leases = slots.acquire_many(2)
    threading.Timer(0.2, leases.release).start()
    with slots.acquire_many(2, timeout=10) as more:
        more.check()


def test_a_child_cannot_use_what_it_inherits(hosts: str, path: str) -> None:
    done = scripts.run(
        """
    client = zklock.Client(hosts)
    slots = zklock.Semaphore(client, path, 3)
    both = zklock.MultiLock([slots, zklock.Mutex(client, path + "x")])
    slots.acquire()
    leases = slots.acquire_many(1)
    both.acquire()
    if not os.fork():
        for attempt in (slots.acquire, slots.release, lambda: slots.acquire_many(2), slots.locked,
                        slots.contenders, leases.check, leases.release, both.acquire, both.release):
            try:
                attempt()
            except zklock.Forked:
                continue
            print("no error from", attempt)
        with leases: pass
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    leases.check()
    both.leases.check()
    print(slots.locked())
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["True"], done


def test_asyncio(hosts: str, observer: Observer, path: str) -> None:
    async def scenario() -> None:
        async with aio.Client(hosts) as client:
            slots = aio.Semaphore(client, path, 2)
            async with slots as one, slots.hold(timeout=5) as two:
                assert one.node != two.node
                assert await slots.locked()
                assert [contender.pid for contender in await slots.contenders()]
                assert not await slots.acquire(blocking=False)
            assert not await slots.locked()
            async with await slots.acquire_many(2, timeout=5) as leases:
                assert len(leases) == 2
                assert [lease.path for lease in leases] == [path, path]
                with pytest.raises(zklock.LockTimeout):
                    await slots.acquire_many(1, blocking=False)
                assert slots.lease is None
                waiting = asyncio.create_task(slots.acquire_many(2))
                await asyncio.to_thread(observer.wait_queue, f"{path}/leases", 4)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await asyncio.to_thread(observer.wait_queue, f"{path}/leases", 2)
            with pytest.raises(zklock.NotHeld):
                leases.release()
            # Any caller can release.
            assert await asyncio.create_task(slots.acquire())
            await asyncio.create_task(slots.release())
            with pytest.raises(zklock.NotHeld):
                slots.release()

    asyncio.run(scenario())
    assert held(observer, path) == 0


def test_asyncio_reads_a_shared_count(hosts: str, observer: Observer, path: str) -> None:
    count = f"{path}-count"
    observer.create(count)
    observer.client.set(count, struct.pack(">i", 1))

    async def scenario() -> None:
        async with aio.Client(hosts) as client:
            slots = aio.Semaphore(client, path, shared_count=count)
            assert (slots.permits, slots.shared_count) == (None, count)
            async with slots:
                waiting = asyncio.create_task(slots.acquire())
                await asyncio.to_thread(observer.wait_queue, f"{path}/leases", 2)
                await asyncio.to_thread(observer.client.set, count, struct.pack(">i", 2))
                assert await waiting
                await slots.release()

    asyncio.run(scenario())
    assert held(observer, path) == 0
