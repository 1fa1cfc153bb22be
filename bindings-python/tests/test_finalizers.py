"""Python runs code of the program wherever an object goes: it may use the very lock that is at work."""

from __future__ import annotations

import weakref

import zklock


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
    # Whoever asks for the newest level forgets those that were released.
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
