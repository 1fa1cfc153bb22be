"""Tests of `try`, which acquires a lock only if it is free and never waits in the queue."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, nothing_watched, user

READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}


def test_s06_try_on_a_free_lock(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    assert worker.try_acquire()["event"] == "acquired"
    assert len(observer.queue(path)) == 1
    worker.release()
    assert worker.try_acquire("again")["event"] == "acquired"
    worker.release("again")
    observer.assert_free(path)


def test_s08_try_on_a_taken_lock(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path)
    holder.hold()
    worker = user(start, surface, proxy.hosts, path)
    proxy.reset()
    assert worker.try_acquire()["event"] == "busy"
    requests = proxy.snapshot().requests
    assert sum(requests.values()) == 1
    assert set(requests) <= READS
    nothing_watched(server, worker, path)
    assert len(observer.queue(path)) == 1


def test_s83_many_tries_at_once(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, server.hosts, path)
    for turn in range(5):
        tries = [
            worker.send("try", lock="m", lease=f"l{turn}-{number}", owner=f"o{number}") for number in range(8)
        ]
        lucky = [number for number, one in enumerate(tries) if one.result()["event"] == "acquired"]
        assert len(lucky) == 1
        observer.wait_queue(path, 1, timeout=2)
        worker.release(f"l{turn}-{lucky[0]}", owner=f"o{lucky[0]}")
    nothing_watched(server, worker, path)
    assert_clean(worker.holds(), at_least=5)
    observer.assert_free(path)
