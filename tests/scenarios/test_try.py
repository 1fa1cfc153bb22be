"""Asking without queueing."""

from __future__ import annotations

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
    assert observer.queue(path) == []


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
