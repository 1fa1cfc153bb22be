"""Holders that die, and holders that are stopped."""

from __future__ import annotations

import time

from harness.history import assert_clean
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, await_loss, line_up, seconds, user

SESSION = 2.0


def test_s14_a_killed_holder_frees_the_lock(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path, session_timeout=SESSION)
    other = user(start, surface, server.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    holder.kill()
    assert holder.killed is not None
    line = waiting.expect("acquired")
    assert seconds(line, holder.killed) <= SESSION + 2
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=2)
    assert observer.queue(path) == []


def test_s48_a_paused_holder(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path, session_timeout=SESSION)
    other = user(start, surface, server.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    paused = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    holder.presume_lost()
    holder.pause()
    line = waiting.expect("acquired")
    assert seconds(line, paused) <= SESSION + 2
    holder.resume()
    await_loss(holder)
    assert len(observer.queue(path)) == 1
    other.release()
    holder.hold("again", owner="b")
    holder.release("again", owner="b")
    assert_clean(holder.holds() + other.holds(), at_least=3, restarts=True)
    assert observer.queue(path) == []
