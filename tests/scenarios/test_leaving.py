"""A waiter whose wait ends by a timeout, a cancellation, Ctrl-C or a close leaves no node behind."""

from __future__ import annotations

import time
from collections import Counter

from harness.history import assert_clean
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, assert_took, assert_within, line_up, nothing_watched, user
from harness.worker import Pending, Worker

TIMEOUT = 0.5

RACES = 32
"""Number of races between a cancellation and a grant."""


def end_race(racer: Worker, racing: Pending) -> str:
    """Return the event that ended the acquire, after releasing the lease if there is one."""
    ended = str(racing.result()["event"])
    if ended == "acquired":
        racer.release(racing.command["lease"], owner=racing.command["owner"])
    return ended


class RaceDelay:
    """The delay between a release and a cancellation, adjusted so that grant and cancellation are close."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.ended: Counter[str] = Counter()
        self._step = 0.004
        self._last = ""

    def correct(self, ended: str) -> None:
        """Increase the delay if the cancellation was first, else reduce it.

        The step is halved if the outcome differs from the previous one, else it grows.
        """
        assert ended in {"acquired", "cancelled"}
        if self._last:
            self._step = max(self._step / 2, 0.0001) if ended != self._last else self._step * 1.5
        self._last = ended
        self.ended[ended] += 1
        self.seconds += self._step if ended == "cancelled" else -self._step


def queue_of_three(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> tuple[Worker, Worker, Worker, Pending, Pending]:
    """Return a holder, a waiter that can be cancelled, the last waiter, and both pending acquires."""
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
    assert_took(line, leaving.sent, TIMEOUT)
    observer.wait(path, lambda nodes: len(nodes) == 2 and left not in nodes, "queue without the leaver", 2)
    nothing_watched(server, leaver, path)
    holder.release()
    behind.expect("acquired")
    last.release()
    assert_clean(holder.holds() + last.holds(), at_least=2)
    observer.assert_free(path)


def test_s09_cancellation_leaves_no_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last, leaving, behind = queue_of_three(surface, server, observer, path, start)
    asked = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    leaver.cancel(leaving)
    line = leaving.expect("cancelled")
    assert_within(line, asked, 0.3)
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
    observer.assert_free(path)


def test_s10_ctrl_c_leaves_no_node(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (leaving,) = line_up(observer, path, [leaver], owner="main")
    pressed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    leaver.interrupt()
    line = leaving.expect("cancelled")
    assert_within(line, pressed, 0)
    observer.wait_queue(path, 1, timeout=2)
    nothing_watched(server, leaver, path)
    holder.release()
    leaver.hold(owner="main")
    leaver.release(owner="main")
    observer.assert_free(path)


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
    observer.assert_free(path)


def test_s54_cancellation_races_the_grant(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder, racer = (user(start, surface, server.hosts, path) for _ in range(2))
    owner = racer.surface.cancellable_owner
    # Each race corrects the delay by the result of the last one.
    delay = RaceDelay()
    for turn in range(RACES):
        holder.hold()
        racing = racer.acquire(f"r{turn}", owner=owner)
        observer.wait_queue(path, 2)
        if delay.seconds < 0:
            racer.cancel(racing)
            time.sleep(-delay.seconds)
        releasing = holder.send("release", lease="l", owner="a")
        if delay.seconds >= 0:
            time.sleep(delay.seconds)
            racer.cancel(racing)
        releasing.expect("released")
        delay.correct(end_race(racer, racing))
        observer.wait_queue(path, 0, timeout=3)
    assert min(delay.ended["acquired"], delay.ended["cancelled"]) >= RACES / 8, f"no race: {delay.ended}"
    assert_clean(holder.holds() + racer.holds(), at_least=RACES)


def test_s54_cancellation_and_grant_arrive_together(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    holder, racer = (user(start, surface, server.hosts, path) for _ in range(2))
    owner = racer.surface.cancellable_owner
    for turn in range(RACES):
        holder.hold()
        racing = racer.acquire(f"r{turn}", owner=owner)
        observer.wait_queue(path, 2)
        # When the process resumes, both the grant and the cancellation have arrived.
        racer.pause()
        holder.release()
        if racer.surface.cancels_by_signal:
            racer.interrupt()
        else:
            racer.send("cancel", target=racing.id)
        racer.resume()
        end_race(racer, racing)
        observer.wait_queue(path, 0, timeout=3)
    assert_clean(holder.holds() + racer.holds(), at_least=RACES)
