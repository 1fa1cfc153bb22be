"""The directories above the queue, and what else may be in them."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, line_up, user


def test_s15_missing_parents(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    deep = path + "/a/b/c/lock"
    # Two at once, so that each may find a level that the other has just created.
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
    assert observer.queue(deep) == []


def test_s16_a_reaped_parent(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
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


def test_s49_first_use(surface: str, proxy: Proxy, observer: Observer, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path + "/lock")
    proxy.reset()
    worker.hold()
    requests = proxy.snapshot().requests
    worker.release()
    assert sum(requests.values()) <= 5, requests
