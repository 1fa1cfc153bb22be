"""Ways out of the queue: time-out, cancellation, Ctrl-C, close. None may leave anything behind."""

from __future__ import annotations

import time

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, line_up, nothing_watched, seconds, user
from harness.worker import Pending, Worker

TIMEOUT = 0.5


def queue_of_three(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> tuple[Worker, Worker, Worker, Pending, Pending]:
    """A holder, a waiter that can be cancelled, and one behind it."""
    holder, leaver, last = (user(start, surface, server.hosts, path) for _ in range(3))
    holder.hold()
    (leaving,) = line_up(observer, path, [leaver], owner=leaver.surface.cancellable_owner)
    (behind,) = line_up(observer, path, [last])
    return holder, leaver, last, leaving, behind


def test_s07_timeout_leaves_no_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last = (user(start, surface, server.hosts, path) for _ in range(3))
    holder.hold()
    leaving = leaver.acquire(timeout=TIMEOUT)
    left = observer.wait_queue(path, 2)[1]
    behind = last.acquire("l")
    line = leaving.expect("timeout")
    assert TIMEOUT <= seconds(line, leaving.sent) <= TIMEOUT + 0.2
    observer.wait(path, lambda nodes: len(nodes) == 2 and left not in nodes, "queue without the leaver", 2)
    nothing_watched(server, leaver, path)
    holder.release()
    behind.expect("acquired")
    last.release()
    assert_clean(holder.holds() + last.holds(), at_least=2)
    assert observer.queue(path) == []


def test_s09_cancellation_leaves_no_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last, leaving, behind = queue_of_three(surface, server, observer, path, start)
    asked = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    leaver.cancel(leaving)
    line = leaving.expect("cancelled")
    assert seconds(line, asked) <= 0.5
    observer.wait_queue(path, 2, timeout=2)
    nothing_watched(server, leaver, path)
    assert not behind.done
    holder.release()
    behind.expect("acquired")
    again = leaver.acquire("again", owner="b")
    observer.wait_queue(path, 2)
    last.release()
    again.expect("acquired")
    leaver.release("again", owner="b")
    assert_clean(holder.holds() + leaver.holds() + last.holds(), at_least=3)
    assert observer.queue(path) == []


def test_s10_ctrl_c_leaves_no_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (leaving,) = line_up(observer, path, [leaver], owner="main")
    pressed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    leaver.interrupt()
    line = leaving.expect("cancelled")
    assert seconds(line, pressed) <= 0.2
    observer.wait_queue(path, 1, timeout=2)
    nothing_watched(server, leaver, path)
    holder.release()
    leaver.hold(owner="main")
    leaver.release(owner="main")
    assert observer.queue(path) == []


def test_s47_close_while_waiting(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (waiting,) = line_up(observer, path, [leaver])
    leaver.call("close", client="c")
    assert waiting.error().code == "CLIENT_CLOSED"
    observer.wait_queue(path, 1, timeout=2)
    holder.release()
    assert observer.queue(path) == []


@pytest.mark.parametrize("first", ["release", "cancel"])
def test_s54_cancellation_races_the_grant(
    surface: str, first: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder, racer = (user(start, surface, server.hosts, path) for _ in range(2))
    owner = racer.surface.cancellable_owner
    for turn in range(15):
        holder.hold()
        racing = racer.acquire(f"r{turn}", owner=owner)
        observer.wait_queue(path, 2)
        if first == "cancel":
            racer.cancel(racing)
        releasing = holder.send("release", lease="l", owner="a")
        if first == "release":
            racer.cancel(racing)
        releasing.expect("released")
        if racing.result()["event"] == "acquired":
            racer.release(f"r{turn}", owner=owner)
        observer.wait_queue(path, 0, timeout=3)
    assert_clean(holder.holds() + racer.holds(), at_least=15)
