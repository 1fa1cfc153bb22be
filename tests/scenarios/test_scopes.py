"""Scopes and releases end in time while the server is silent, and report a broken lock."""

from __future__ import annotations

import time

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import LATE, Start, assert_within, eventually, line_up, user
from harness.worker import Line, Pending, Worker

T = 4.0

BREAKS = 25
"""Number of times the lock is broken, 0 to 200 ms after its grant."""

ENDS = 10
"""Number of repetitions. In each, the session ends 0 to 100 ms before the test leaves the scope."""


def ends_in_time(leaving: Pending) -> Line:
    """Assert that the scope ends without an error at the end of the lease's term. Return the reply."""
    line = leaving.expect("left")
    assert 0.3 < line["remaining"] <= T / 2
    took = assert_within(line, line["t0"], line["remaining"])
    assert line["remaining"] - LATE <= took
    return line


def test_s270_a_scope_ends_while_the_server_is_silent(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path, session_timeout=T)
    worker.enter()
    # A heartbeat has been sent by now, so enough of the term is left.
    time.sleep(0.8)
    proxy.black_hole()
    time.sleep(0.3)
    ends_in_time(worker.leave())
    assert len(observer.queue(path)) == 1
    proxy.heal()
    observer.wait_queue(path, 0)
    worker.hold("again")
    worker.release("again")


def test_s640_leaving_a_scope_releases_only_its_own_lock(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(server.hosts)
    worker.lock(path, lock="slots", kind="semaphore", permits=5)
    leases = f"{path}/leases"
    nodes = {}
    for scope, owner in (("x", "a"), ("y", "b"), ("z", "b"), ("w", "c")):
        nodes[scope] = worker.enter(scope, lock="slots", owner=owner)["node"].rsplit("/", 1)[-1]
    # Owner d has entered no scope.
    for scope, owner in (("x", "d"), ("y", "b"), ("w", "d"), ("z", "a")):
        worker.leave(scope, owner=owner).expect("left")
        node = nodes.pop(scope)
        observer.wait_queue(leases, len(nodes))
        assert node not in observer.queue(leases)
        assert sorted(observer.queue(leases)) == sorted(nodes.values())


def test_s271_a_multi_locks_scope_ends_while_the_server_is_silent(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, f"{path}/0", session_timeout=T)
    members = [f"m{number}" for number in range(4)]
    for number, member in enumerate(members):
        worker.lock(f"{path}/{number}", lock=member)
    worker.multi(members)
    worker.enter(lock="multi")
    proxy.black_hole()
    time.sleep(0.3)
    ends_in_time(worker.leave())
    proxy.heal()
    for number in range(len(members)):
        observer.wait_queue(f"{path}/{number}", 0)


def test_s272_a_release_waits_at_most_its_timeout(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path, session_timeout=T)
    worker.hold()
    proxy.black_hole()
    line = worker.release(timeout=0.3)
    assert assert_within(line, line["t0"], 0.3) >= 0.3 - LATE / 10
    assert len(observer.queue(path)) == 1
    proxy.heal()
    observer.wait_queue(path, 0)
    # A release is acknowledged if the server can do it in time.
    worker.hold("again")
    worker.release("again", timeout=5)
    observer.assert_free(path)


@pytest.mark.parametrize("option", [{"timeout": -5}, {"wait": False, "timeout": 1}])
def test_s273_a_release_refuses_a_bad_timeout(
    surface: str, option: Line, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.hold()
    asked = worker.send("release", lease="l", owner="a", **option)
    assert asked.error().code == "BAD_ARGUMENT"
    assert worker.check().expect("value")["value"] == "held"
    assert len(observer.queue(path)) == 1
    worker.release()
    observer.assert_free(path)


def breaks(observer: Observer, path: str, worker: Worker, after: float) -> Pending:
    """Enter a scope, break its lock `after` seconds after the grant, and leave the scope."""
    entered = worker.enter()
    time.sleep(max(0.0, after - (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(entered["t"])) / 1e9))
    observer.delete(entered["node"])
    return worker.leave()


def test_s274_a_scope_tells_that_its_lock_was_broken(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, other = (user(start, surface, server.hosts, path) for _ in range(2))
    output = 0
    for turn in range(BREAKS):
        holder.enter()
        (waiting,) = line_up(observer, path, [other])
        node = observer.queue(path)[0]
        time.sleep(0.2 * turn / BREAKS)
        observer.delete(f"{path}/{node}")
        waiting.expect("acquired")
        output += holder.leave().error().code == "LOCK_LOST"
        other.release()
    assert output == BREAKS
    for turn in range(BREAKS):
        output += breaks(observer, path, holder, 0.2 * turn / BREAKS).error().code == "LOCK_LOST"
    assert output == 2 * BREAKS
    assert holder.call("stats", client="c")["value"]["losses"] == 2 * BREAKS
    assert other.call("stats", client="c")["value"]["losses"] == 0
    observer.assert_free(path)


def test_s425_a_scope_tells_that_its_session_was_ended(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    for turn in range(ENDS):
        session = observer.owner(worker.enter()["node"])
        observer.kill_session(session, proxy.passwords[session])
        time.sleep(0.1 * turn / ENDS)
        assert worker.leave().error().code == "LOCK_LOST"
        observer.wait_queue(path, 0)
    assert worker.call("stats", client="c")["value"]["losses"] == ENDS


def test_s275_a_release_of_a_broken_lock_returns(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    for turn in range(5):
        lease = f"l{turn}"
        node = worker.hold(lease)["node"]
        observer.delete(node)
        worker.release(lease)
        assert worker.call("state", lease=lease)["value"] == "lost"
        assert worker.check(lease).error().code == "LOCK_LOST"
    assert worker.call("stats", client="c")["value"]["losses"] == 5
    assert not worker.lost, "on_lost is silent after a release"


def test_s276_a_lost_reply_to_the_delete_is_not_a_broken_lock(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path)
    worker.enter()
    drop = proxy.drop_reply("delete")
    worker.leave().expect("left")
    drop.wait()
    assert worker.call("stats", client="c")["value"]["losses"] == 0
    observer.assert_free(path)


def test_s277_a_loss_is_not_reported_for_a_released_level(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.hold("outer")
    node = worker.hold("inner")["node"]
    worker.release("inner")
    observer.delete(node)
    eventually(lambda: "outer" in worker.lost, "the loss of the outer level is reported")
    # If the client wrongly reported the loss of `inner`, the report would arrive within this time.
    time.sleep(0.1)
    assert worker.lost == {"outer"}
    assert worker.call("state", lease="inner")["value"] == "released"
