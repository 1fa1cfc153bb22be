"""Tests of the directories above a queue, and of other nodes in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.embedded import NewServer
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import SOON, Settings, Standalone
from harness.steps import Start, line_up, user


@pytest.fixture(scope="module")
def reaping(new_server: NewServer) -> Iterator[Standalone]:
    """Provide a server that reaps idle containers after a short time."""
    with new_server(Settings(container_check=SOON)) as standalone:
        yield standalone


def test_s15_missing_parents(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    deep = path + "/a/b/c/lock"
    # Two workers acquire the lock at the same time. One of them can find a directory that the other has just
    # created.
    workers = [user(start, surface, server.hosts, deep) for _ in range(2)]
    asked = [worker.acquire() for worker in workers]
    observer.wait_queue(deep, 2)
    while not any(pending.done for pending in asked):
        observer.wait_queue(deep, 2)
    ordered = sorted(zip(asked, workers, strict=True), key=lambda pair: not pair[0].done)
    for pending, worker in ordered:
        pending.expect("acquired")
        worker.release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=2)
    observer.assert_free(deep)


def test_s16_a_reaped_parent(surface: str, reaping: Standalone, path: str, start: Start) -> None:
    worker = user(start, surface, reaping.hosts, path)
    with Observer(reaping.hosts) as observer:
        for _ in range(2):
            worker.hold()
            worker.release()
            observer.wait_gone(path)
        worker.hold()
        assert len(observer.queue(path)) == 1
    worker.release()
    assert_clean(worker.holds(), at_least=3, restarts=True)


def test_s27_foreign_children(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    foreign = ["config", "_c_lock-123", "x-lock-00000000001x"]
    for name in foreign:
        observer.create(f"{path}/{name}")
    first, second = (user(start, surface, server.hosts, path) for _ in range(2))
    first.hold()
    assert second.try_acquire()["event"] == "busy"
    (waiting,) = line_up(observer, path, [second])
    first.release()
    waiting.expect("acquired")
    second.release()
    assert second.try_acquire("again")["event"] == "acquired"
    second.release("again")
    assert_clean(first.holds() + second.holds(), at_least=3)
    assert observer.children(path) == sorted(foreign)


@pytest.mark.parametrize(("existing", "limit"), [(0, 5), (1, 9)], ids=["nothing", "a directory"])
def test_s49_first_use(
    surface: str, existing: int, limit: int, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    if existing:
        observer.create(f"{path}-above")
    missing = f"{path}-above/a/b" if existing else f"{path}/lock"
    worker = user(start, surface, proxy.hosts, missing)
    proxy.reset()
    worker.hold()
    requests = proxy.snapshot().requests
    worker.release()
    assert sum(requests.values()) <= limit, requests


def asked(proxy: Proxy) -> list[set[str]]:
    """Return the requests of each flight, except heartbeats and the watches of long holds."""
    flights = [set(flight.requests) - {"ping", "getData"} for flight in proxy.snapshot().flights]
    return [flight for flight in flights if flight]


def test_s291_what_a_free_lock_costs(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(f"{path}/kept")
    worker = user(start, surface, proxy.hosts, f"{path}/new", session_timeout=30)
    worker.lock(f"{path}/kept", lock="kept")
    proxy.delay = 0.02
    for lock, tried, limit in [("m", False, 4), ("kept", False, 1), ("kept", True, 2)]:
        proxy.reset()
        if tried:
            assert worker.try_acquire(lock=lock)["event"] == "acquired"
        else:
            worker.hold(lock=lock)
        flights = asked(proxy)
        assert len(flights) <= limit, flights
        worker.release()
