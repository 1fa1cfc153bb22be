"""`threading.Condition` with a lock of zklock: it excludes other processes, but cannot notify them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import zklock

WAIT = 20


def condition(lock: zklock.Lock) -> threading.Condition:
    """Return a condition on `lock`. The cast is needed because `threading` declares only its own locks."""
    return threading.Condition(cast(Any, lock))


LOCKS: dict[str, Callable[[zklock.Client, str], zklock.Lock]] = {
    "reentrant": lambda client, path: zklock.Mutex(client, path),
    "not reentrant": lambda client, path: zklock.Mutex(client, path, reentrant=False),
    "write half": lambda client, path: zklock.ReadWriteLock(client, path).write_lock,
}


@pytest.fixture(params=LOCKS)
def lock(request: pytest.FixtureRequest, client: zklock.Client, path: str) -> zklock.Lock:
    """Provide an exclusive lock."""
    return LOCKS[request.param](client, path)


def test_threads_hand_over_items(lock: zklock.Lock) -> None:
    items: list[int] = []
    taken: list[int] = []
    filled = condition(lock)

    def consume() -> None:
        for _ in range(5):
            with filled:
                assert filled.wait_for(lambda: items, WAIT)
                assert lock.owned()
                taken.append(items.pop())

    consumers = [threading.Thread(target=consume) for _ in range(3)]
    for consumer in consumers:
        consumer.start()
    for number in range(15):
        with filled:
            items.append(number)
            filled.notify()
    for consumer in consumers:
        consumer.join(WAIT)
    assert sorted(taken) == list(range(15))
    assert not lock.locked()


def test_a_wait_releases_the_lock_and_acquires_it_again(
    lock: zklock.Lock, other: zklock.Client, path: str
) -> None:
    """The other holders belong to another client, as in another process."""
    changed = condition(lock)
    waiting = threading.Event()
    seen: list[bool] = []

    def wait() -> None:
        with changed:
            waiting.set()
            seen.append(changed.wait(WAIT))
            seen.append(lock.owned())
            lease = lock.lease
            assert lease is not None
            lease.check()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(WAIT)
    theirs = zklock.Mutex(other, path)
    assert theirs.acquire(timeout=WAIT)
    # While the other client holds the lock, no thread of this client can acquire it, not even a notified
    # waiter.
    assert not lock.acquire(blocking=False)
    theirs.release()
    with changed:
        changed.notify_all()
    thread.join(WAIT)
    assert seen == [True, True]
    assert not lock.locked()


def test_every_level_is_given_up_and_taken_again(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    lock = zklock.Mutex(client, path)
    changed = condition(lock)
    theirs = zklock.Mutex(other, path)
    passed: list[bool] = []
    with changed, lock:
        assert lock.acquire()
        with lock:
            # Released within its scope.
            lock.release()

            def pass_through() -> None:
                with theirs.hold(timeout=WAIT):
                    passed.append(lock.owned())

            passing = threading.Thread(target=pass_through)
            passing.start()
            # The other thread can enter only after all three acquisitions of the lock are released.
            while passing.is_alive():
                changed.wait(0.1)
            assert passed == [False]
            assert lock.owned()
        # The end of the inner scope released nothing, because `release()` had already undone the scope's
        # acquire.
        assert lock.owned()
        lock.release()
        assert lock.owned()
    assert not lock.owned()
    assert not lock.locked()


def test_a_wait_that_times_out_acquires_the_lock_again(lock: zklock.Lock) -> None:
    changed = condition(lock)
    with changed:
        assert not changed.wait(0.05)
        assert lock.owned()
    assert not lock.locked()


def test_wait_and_notify_require_the_lock(lock: zklock.Lock, client: zklock.Client) -> None:
    changed = condition(lock)
    sent = client.stats().requests
    with pytest.raises(RuntimeError):
        changed.wait(0)
    with pytest.raises(RuntimeError):
        changed.notify()
    # The check sent no request, unlike a try.
    assert client.stats().requests == sent
    with pytest.raises(zklock.NotHeld):
        lock._release_save()  # type: ignore[attr-defined]
