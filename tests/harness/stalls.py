"""Measures how long the machine was stalled, because it was busy or because a virtual machine was paused.

A time limit in a test must only measure the code under test, so stalls do not count. A thread that only
sleeps detects them: it wakes up late.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from harness.answers import now

TICK = 0.01
NOTICED = 0.002
"""Wake-up delays shorter than this many seconds are ignored."""
WAKE_UPS = 4
"""Number of thread wake-ups that a command causes.

Both the command and its reply wake one thread in the worker and one in the library.
"""


class StallMonitor:
    """A thread that sleeps repeatedly and records when it slept too long."""

    def __init__(self) -> None:
        # Start and end of each stall.
        self._stalls: deque[tuple[int, int]] = deque(maxlen=10_000)
        threading.Thread(target=self._measure, name="metronome", daemon=True).start()

    def _measure(self) -> None:
        due = now()
        while True:
            time.sleep(TICK)
            due, woke = due + int(TICK * 1e9), now()
            if woke - due > NOTICED * 1e9:
                self._stalls.append((due, woke))
            due = woke

    def stalled_seconds(self, since: int, until: int) -> float:
        """Return the number of seconds between two stamps during which the machine was stalled."""
        common = (min(until, end) - max(since, begin) for begin, end in list(self._stalls))
        return sum(max(0, part) for part in common) / 1e9

    def allowance(self, since: int, until: int) -> float:
        """Return the number of seconds by which a command that ran between two stamps can be late.

        Each thread that takes part in the command can wait for a processor as long as the monitor did.
        """
        return WAKE_UPS * self.stalled_seconds(since, until)


STALL_MONITOR = StallMonitor()
