"""Finalizers of the program can use a lock, even while Python drops the lock object or its lease."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
import scripts
from harness.observer import Observer

import zklock
from zklock import aio


def test_a_finalizer_of_a_lease_may_use_its_lock(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    seen: list[object] = []

    def watch() -> None:
        assert lock.lease is not None
        weakref.finalize(lock.lease, lambda: seen.append((lock.owned(), lock.lease)))

    lock.acquire()
    watch()
    lock.release()
    assert seen.pop() == (False, None)

    lock.acquire()
    watch()
    assert lock.lease is not None
    lock.lease.release()
    # A query for the newest level forgets the released ones.
    assert lock.lease is None
    assert seen.pop() == (False, None)

    with lock:
        watch()
    assert seen.pop() == (False, None)


def test_a_finalizer_of_leases_may_use_their_lock(client: zklock.Client, path: str) -> None:
    both = zklock.MultiLock([zklock.Mutex(client, path), zklock.Mutex(client, path + "-2")])
    seen: list[object] = []
    both.acquire()
    assert both.leases is not None
    weakref.finalize(both.leases, lambda: seen.append(both.leases))
    both.release()
    assert seen == [None]


def test_a_finalizer_may_acquire(client: zklock.Client, path: str) -> None:
    lock, taken = zklock.Mutex(client, path), []

    class Keeper:
        def __del__(self) -> None:
            with lock as lease:
                taken.append(lease.state)

    keepers = [Keeper()]
    keepers.append(keepers)  # type: ignore[arg-type]
    with lock:
        keepers.clear()
    assert taken == ["held"]


AT_THE_END = {
    "a lease in a cycle": """
        gc.disable()
        cycle = [lock.lease]
        cycle.append(cycle)
        del lock, cycle
        """,
    "__del__ of a global releases": """
        class Holder:
            def __del__(self):
                lock.release()
        holder = Holder()
        """,
    "__del__ in a cycle releases": """
        class Holder:
            def __init__(self):
                self.lease, self.cycle = lock.lease, self
            def __del__(self):
                self.lease.release()
        holder = Holder()
        """,
    "__del__ locks": """
        class Late:
            lock = zklock.Mutex(hosts, path + "-late")
            def __del__(self):
                with self.lock.hold(timeout=5) as lease:
                    os.write(1, lease.state.encode())
        late = Late()
        """,
    "weakref.finalize releases": """
        class Holder: pass
        holder = Holder()
        weakref.finalize(holder, lock.release)
        """,
    "an exit handler releases": """
        atexit.register(lock.release)
        """,
    "a generator stands in the scope": """
        def scope():
            with zklock.Mutex(hosts, path):
                yield
        standing = scope()
        next(standing)
        """,
    "callbacks": """
        notices = lock.lease.on_lost(lambda lease: None), lock.lease.on_revoke(lambda lease: None)
        """,
    "a transaction": """
        begun = lock.lease.transaction().create(path + "-written")
        """,
    "all kinds": """
        table = zklock.ReadWriteLock(hosts, path + "-table")
        slots = zklock.Semaphore(hosts, path + "-slots", 3)
        both = zklock.MultiLock([zklock.Mutex(hosts, path + "-one"), zklock.Mutex(hosts, path + "-two")])
        taken = table.write_lock.acquire(), table.read_lock.acquire(), both.acquire(), slots.acquire_many(2)
        """,
    "asyncio: a lease is kept": """
        async def acquire():
            other = aio.Mutex(hosts, path + "-other")
            await other.acquire()
            return other, other.lease
        kept = asyncio.run(acquire())
        """,
    "asyncio: a task exits": """
        other = aio.Mutex(hosts, path + "-other")
        async def main():
            await other.acquire()
            leases.append(other.lease)
            sys.exit()
        leases = []
        asyncio.run(main())
        """,
    "asyncio: a task stands in the scope": """
        async def scope():
            async with aio.Mutex(hosts, path + "-other"):
                inside.set_result(None)
                await asyncio.Event().wait()
        event_loop = asyncio.new_event_loop()
        inside = event_loop.create_future()
        task = event_loop.create_task(scope())
        event_loop.run_until_complete(inside)
        """,
}


@pytest.mark.parametrize("scene", AT_THE_END)
def test_the_end_of_the_interpreter(observer: Observer, hosts: str, path: str, scene: str) -> None:
    """Objects that outlive the interpreter cause no panic and no hang, and their locks are freed."""
    head = """
        import atexit, gc, weakref
        lock = zklock.Mutex(hosts, path)
        lock.acquire()
        """
    done = scripts.run(head + AT_THE_END[scene], hosts, path, timeout=15)
    for suffix in ("", "-late", "-other", "-table", "-one", "-two", "-slots/leases", "-slots/locks"):
        observer.wait_queue(path + suffix, 0, timeout=2)
    assert done.returncode == 0, done
    assert done.stdout == ("held" if scene == "__del__ locks" else ""), done
    if "stands" in scene and "asyncio" in scene:
        # asyncio itself complains about tasks and loops that a program leaves behind.
        assert "panicked" not in done.stderr, done
    else:
        assert done.stderr == "", done


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_scope_in_a_multi_lock_of_a_task_that_is_forgotten_is_collected(
    hosts: str, observer: Observer, path: str
) -> None:
    """The cycle: lock, levels, scope, task, frame, multi-lock, lock."""

    async def main() -> None:
        async with aio.Client(hosts) as client:
            inside = asyncio.Event()

            async def stand() -> None:
                lock = aio.Mutex(client, path)
                both = aio.MultiLock([lock])
                async with both, lock:
                    inside.set()
                    # Nothing else refers to this future.
                    await asyncio.get_running_loop().create_future()

            task = asyncio.create_task(stand())
            await inside.wait()
            gone = weakref.ref(task)
            del task
            gc.collect()
            assert gone() is None
            await asyncio.to_thread(observer.wait_queue, path, 0)

    asyncio.run(main())
