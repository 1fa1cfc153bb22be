"""Re-entry: the owner that holds a lock acquires it again, and every other owner waits."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, user

# Requests that can be sent at any time: heartbeats, and the watch on the holder's node.
UNASKED = {"multi", "getData", "exists", "addWatch"}


@pytest.mark.parametrize("first_released", ["inner", "outer"])
def test_s03_reentry(
    surface: str, first_released: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    outer = worker.hold("outer")
    proxy.reset()
    inner = worker.hold("inner")
    assert inner["node"] == outer["node"]
    assert inner["token"] == outer["token"]
    worker.release(first_released)
    assert set(proxy.snapshot().requests) <= UNASKED
    assert len(observer.queue(path)) == 1
    worker.release("outer" if first_released == "inner" else "inner")
    observer.assert_free(path)
    assert_clean(worker.holds())


def test_s04_other_owners_are_excluded(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.connect(server.hosts, client="d")
    worker.lock(path, lock="n", client="d")
    worker.hold("outer", owner="a")
    worker.hold("inner", owner="a")
    same_client = worker.acquire("b", owner="b")
    observer.wait_queue(path, 2)
    # On another client, the same owner counts as a different contender, because its node belongs to another
    # session.
    worker.acquire("x", lock="n", owner="a", timeout=0.1).expect("timeout")
    observer.wait_queue(path, 2)
    other_client = worker.acquire("c", lock="n", owner="c")
    observer.wait_queue(path, 3)
    worker.release("inner", owner="a")
    assert worker.try_acquire("d", owner="d")["event"] == "busy"
    assert not same_client.done
    worker.release("outer", owner="a")
    same_client.expect("acquired")
    assert not other_client.done
    worker.release("b", owner="b")
    other_client.expect("acquired")
    worker.release("c", owner="c")
    assert_clean(worker.holds(), at_least=3)
    observer.assert_free(path)


def test_s05_the_path_is_the_lock(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.lock(path, lock="twin")
    first = worker.hold("first", owner="a")
    second = worker.hold("second", lock="twin", owner="a")
    assert second["node"] == first["node"]
    assert worker.try_acquire("x", lock="twin", owner="b")["event"] == "busy"
    worker.release("first", owner="a")
    assert worker.try_acquire("x", lock="m", owner="b")["event"] == "busy"
    worker.release("second", owner="a")
    assert worker.try_acquire("x", lock="twin", owner="b")["event"] == "acquired"
    worker.release("x", owner="b")
    assert_clean(worker.holds(), at_least=2)
    observer.assert_free(path)


def test_s12_release_by_a_non_owner(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    assert worker.send("unlock", lock="m", owner="a").error().code == "NOT_HELD"
    worker.hold(owner="a")
    assert worker.send("unlock", lock="m", owner="b").error().code == "NOT_HELD"
    assert worker.call("owned", lock="m", owner="a")["value"] is True
    assert worker.call("owned", lock="m", owner="b")["value"] is False
    assert len(observer.queue(path)) == 1
    worker.call("unlock", lock="m", owner="a")
    observer.assert_free(path)
    assert_clean(worker.holds())
