"""Latencies of single operations, as histograms. A worker measures them only if its task asks for them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from gate import Task

LONGEST = 60_000_000
"""Longest latency in microseconds that a histogram can contain."""

TIMER = 0.002
"""A sleep that ends later than this number of seconds was delayed by more than the precision of timers."""

NEVER = float("inf")
"""Start of a turn while no turn is in progress: no operation can begin later."""


class Latencies:
    """The latencies of a turn in seconds. They become histograms only after the turn."""

    def __init__(self, task: Task) -> None:
        self.on = task.latencies
        self.exclusive = task.exclusive
        self.period = task.period
        self._offset = task.period / (task.clients * task.contenders)
        self._numbers = itertools.count()
        # Only operations that begin after the turn has begun are recorded.
        self.turn = NEVER
        # Time of the newest call of a release.
        self.released = 0.0
        self.acquire: list[float] = []
        self.release: list[float] = []
        self.handoff: list[float] = []

    def offset(self) -> float:
        """Return when the schedule of the next contender starts, in seconds after the beginning of a turn.
        The contenders start one after the other, so that their requests do not arrive all at once.
        """
        return self._offset * next(self._numbers)

    def begin(self) -> None:
        """Begin a turn."""
        self.turn = time.perf_counter()

    def take(self) -> dict[str, str]:
        """End the turn and return its histograms."""
        self.turn = NEVER
        told = {}
        for name in ("acquire", "release", "handoff"):
            told[name] = text(getattr(self, name))
            setattr(self, name, [])
        return told


def text(seconds: Iterable[float]) -> str:
    """Return a histogram in the format that all libraries for such histograms can read."""
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, LONGEST, 3)
    for one in seconds:
        histogram.record_value(min(max(int(one * 1e6), 1), LONGEST))
    encoded: bytes = histogram.encode()
    return encoded.decode()


class Stopwatch:
    """Measures the operations of one contender. It does nothing unless the task asks for latencies."""

    def __init__(self, latencies: Latencies) -> None:
        self._all = latencies
        self._offset = latencies.offset()
        self._began = 0.0
        # Turn and time of the previous scheduled start.
        self._scheduled = (NEVER, 0.0)
        self._idle = False

    def pause(self) -> float:
        """Call this before an acquire. Return how many seconds to sleep before `start`."""
        if not self._all.on:
            return 0
        self._began = time.perf_counter()
        if not self._all.period or self._all.turn == NEVER:
            self._scheduled = (NEVER, self._began)
            return 0
        # The schedule of a turn starts with the first pair of the turn.
        turn, previous = self._scheduled
        following = previous + self._all.period if turn == self._all.turn else self._began + self._offset
        self._scheduled = (self._all.turn, following)
        self._idle = self._began < following
        return max(following - self._began, 0)

    def start(self) -> None:
        """Call this before an acquire, after the pause. If the previous pair ended after the scheduled time,
        the acquire counts from that time, so that a stall counts for every pair that it delays.
        """
        if self._all.on:
            now, following = time.perf_counter(), self._scheduled[1]
            on_time = self._idle and now - following < TIMER
            self._began = now if on_time else following

    def acquired(self) -> None:
        """Call this after an acquire."""
        if self._all.on:
            now = time.perf_counter()
            if self._began >= self._all.turn:
                self._all.acquire.append(now - self._began)
            if self._all.exclusive and self._all.released >= self._all.turn:
                self._all.handoff.append(now - self._all.released)

    def releasing(self) -> None:
        """Call this before a release."""
        if self._all.on:
            self._began = self._all.released = time.perf_counter()

    def released(self) -> None:
        """Call this after a release."""
        if self._all.on and self._began >= self._all.turn:
            self._all.release.append(time.perf_counter() - self._began)
