"""Measures the machine's delays, so that tests can extend their time limits accordingly."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

PAUSE = 0.005
USUAL = int(0.05e9)
"""Delay in nanoseconds that every machine can have at any time."""


class Lag:
    """A thread that measures how late it wakes up while the block runs."""

    def __init__(self) -> None:
        self._worst = 0
        self._end = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._end.is_set():
            before = time.monotonic_ns()
            time.sleep(PAUSE)
            self._worst = max(self._worst, time.monotonic_ns() - before - int(PAUSE * 1e9))

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._watch.join()

    @property
    def late(self) -> int:
        """Return the time in nanoseconds by which a test extends its limits.

        It covers two processes that run one after the other, each with the longest measured delay.
        """
        return USUAL + 2 * self._worst
