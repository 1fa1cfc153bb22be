"""Tests of release, close and exit: repeated, too late, or without waiting."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, await_loss, eventually, line_up, nothing_watched, user


def test_s216_a_client_reports_its_states(surface: str, proxy: Proxy, start: Start) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, session_timeout=30)
    proxy.refuse()
    worker.wait_line("state", client="c", state="suspended")
    proxy.accept()
    worker.wait_line("state", client="c", state="connected")
    worker.call("close", client="c")
    worker.wait_line("state", client="c", state="closed")
    reported = [line["state"] for line in worker.history if line["event"] == "state"]
    assert reported == ["suspended", "connected", "closed"]


def test_s11_release_twice(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    first, second = (user(start, surface, server.hosts, path) for _ in range(2))
    first.hold()
    first.release()
    second.hold()
    assert first.send("release", lease="l", owner="a").error().code == "NOT_HELD"
    assert len(observer.queue(path)) == 1
    assert second.check().expect("value")["value"] == "held"
    second.release()
    observer.assert_free(path)


def test_s13_use_after_close(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path, session_timeout=30)
    other = user(start, surface, server.hosts, path)
    worker.hold()
    (waiting,) = line_up(observer, path, [other])
    worker.presume_lost()
    worker.call("close", client="c")
    # Only an orderly close frees the lock before the session timeout.
    waiting.expect("acquired", 5)
    await_loss(worker)
    assert worker.acquire("late", owner="b").error().code == "CLIENT_CLOSED"
    assert worker.send("try", lock="m", lease="late", owner="b").error().code == "CLIENT_CLOSED"
    worker.call("close", client="c")
    other.release()
    assert_clean(worker.holds() + other.holds(), at_least=2)
    observer.assert_free(path)


def test_s46_release_without_waiting(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    # The session timeout is long, because the end of the session would also free the lock.
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    worker.hold()
    proxy.black_hole()
    worker.release(wait=False)
    assert len(observer.queue(path)) == 1
    proxy.heal()
    observer.wait_queue(path, 0)


def test_s50_nothing_left_on_the_server(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder, worker = (user(start, surface, server.hosts, path) for _ in range(2))
    for turn in range(3):
        holder.hold()
        worker.acquire("x", owner="a", timeout=0.1).expect("timeout")
        observer.wait_queue(path, 1)
        (waiting,) = line_up(observer, path, [worker])
        assert worker.try_acquire("y", owner="b")["event"] == "busy"
        holder.release()
        waiting.expect("acquired")
        worker.release(wait=turn != 1)
        observer.wait_queue(path, 0)
    nothing_watched(server, holder, path)
    nothing_watched(server, worker, path)


def test_s51_an_orderly_end(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path, session_timeout=30)
    other = user(start, surface, server.hosts, path)
    worker.hold()
    (waiting,) = line_up(observer, path, [other])
    worker.presume_lost()
    worker.exit(timeout=5)
    waiting.expect("acquired", 5)
    other.release()
    assert_clean(worker.holds() + other.holds(), at_least=2)


def test_s52_one_shared_client(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.lock(path, lock="m", hosts=proxy.hosts)
    worker.lock(path + "-other", lock="n", hosts=proxy.hosts)
    assert not proxy.passwords, "a lock object on a hosts string connected before its first use"
    worker.hold("l", lock="m")
    worker.hold("k", lock="n")
    assert len(proxy.passwords) == 1
    worker.release("l")
    worker.release("k")
    observer.assert_free(path)
    observer.assert_free(path + "-other")
    worker.hold("m", lock="m")
    (session,) = proxy.passwords
    worker.exit()
    # Only an orderly close deletes the node this early. If the process just exited, the node would stay.
    observer.wait_queue(path, 0, timeout=5)
    eventually(lambda: not proxy.connections, f"the shared session {session:#x} is closed with its process")
