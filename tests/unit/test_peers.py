"""Tests of the harness itself. They use only lock libraries of other projects, so no fault of zklock affects
them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.history import assert_clean, overlaps
from harness.observer import Observer
from harness.server import Standalone
from harness.surfaces import PEERS
from harness.worker import Worker


@pytest.fixture(params=sorted(PEERS))
def peer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_five_processes_exclude_each_other(
    peer: str, server: Standalone, observer: Observer, path: str, start: Callable[[str], Worker]
) -> None:
    observer.create(path)
    workers = [start(peer) for _ in range(5)]
    for worker in workers:
        worker.connect(server.hosts)
    asked = [worker.contend(path, owners=2, rounds=3, hold_ms=(1, 5)) for worker in workers]
    for pending in asked:
        pending.expect("done")
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=30)
    observer.assert_free(path)
    for worker in workers:
        worker.exit()


def test_the_queue_is_kept(peer: str, server: Standalone, observer: Observer, path: str) -> None:
    observer.create(path)
    with Worker(peer) as first, Worker(peer) as second:
        for worker in (first, second):
            worker.connect(server.hosts)
            worker.lock(path)
        first.hold()
        waiting = second.acquire()
        observer.wait_queue(path, 2)
        assert not waiting.done
        first.release()
        waiting.expect("acquired")
        second.release()
        assert_clean(first.holds() + second.holds(), at_least=2)


def test_a_killed_holder_frees_the_lock(peer: str, server: Standalone, observer: Observer, path: str) -> None:
    observer.create(path)
    with Worker(peer) as first, Worker(peer) as second:
        first.connect(server.hosts, session_timeout=2)
        second.connect(server.hosts)
        for worker in (first, second):
            worker.lock(path)
        first.hold()
        waiting = second.acquire()
        observer.wait_queue(path, 2)
        first.kill()
        waiting.expect("acquired")
        second.release()
        assert_clean(first.holds() + second.holds(), at_least=2)


def test_a_lock_that_does_not_exclude_is_detected(server: Standalone, observer: Observer, path: str) -> None:
    # Simulate a lock that does not exclude: the processes hold locks with different paths, but their
    # histories name the same path.
    observer.create(path + "-a")
    observer.create(path + "-b")
    with Worker("kazoo") as first, Worker("kazoo") as second:
        for worker, name in ((first, "-a"), (second, "-b")):
            worker.connect(server.hosts)
            worker.lock(path + name)
            worker._paths["m"] = path
        first.hold()
        second.hold()
        first.release()
        second.release()
        assert overlaps(first.holds() + second.holds())
