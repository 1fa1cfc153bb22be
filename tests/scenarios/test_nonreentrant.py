"""Tests of mutexes with `reentrant=False`: the owner that holds the lock waits like any other owner."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start
from harness.worker import Worker

TIMEOUT = 0.3


def plain(start: Start, surface: str, server: Standalone, path: str) -> Worker:
    """Return a worker with a mutex `n` that is not reentrant."""
    worker = start(surface)
    worker.connect(server.hosts)
    worker.lock(path, lock="n", reentrant=False)
    return worker


def test_s78_no_reentry(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = plain(start, surface, server, path)
    worker.hold(lock="n")
    worker.acquire("x", lock="n", timeout=TIMEOUT).expect("timeout")
    assert worker.try_acquire("x", lock="n")["event"] == "busy"
    observer.wait_queue(path, 1, timeout=2)
    worker.check().expect("value")
    worker.release()
    assert worker.try_acquire("again", lock="n")["event"] == "acquired"
    worker.release("again")
    assert_clean(worker.holds(), at_least=2)
    observer.assert_free(path)


def test_s79_unlocked_by_another_owner(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = plain(start, surface, server, path)
    worker.hold(lock="n", owner="a")
    waiting = worker.acquire("next", lock="n", owner="c")
    observer.wait_queue(path, 2)
    worker.call("unlock", lock="n", owner="b")
    waiting.expect("acquired")
    worker.call("unlock", lock="n", owner="b")
    observer.assert_free(path)
    assert worker.send("unlock", lock="n", owner="b").error().code == "NOT_HELD"


def test_s80_released_by_another_owner(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = plain(start, surface, server, path)
    worker.hold(lock="n", owner="a")
    waiting = worker.acquire("next", lock="n", owner="a")
    observer.wait_queue(path, 2)
    worker.release(owner="b")
    waiting.expect("acquired")
    worker.release("next", owner="b")
    assert_clean(worker.holds(), at_least=2)
    observer.assert_free(path)
