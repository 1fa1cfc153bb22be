"""A condition whose waiters see every change."""

from __future__ import annotations

import time
from threading import Condition


class Orderly(Condition):
    """After `notify_all`, nobody enters before all who waited have looked.

    kazoo's tests of locks wait until one thread has let go, and then until the next one holds. With a plain
    condition the next one may hold before the test has looked, which then waits for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[object] = set()
        self._to_look: set[object] = set()

    def __enter__(self) -> bool:
        while True:
            entered = super().__enter__()
            if not self._to_look:
                return entered
            self.release()
            time.sleep(0.001)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait to be notified; who was has entered before anybody else does."""
        who = object()
        self._waiting.add(who)
        try:
            return super().wait(timeout)
        finally:
            self._waiting.remove(who)
            self._to_look.discard(who)

    def notify_all(self) -> None:
        """Wake all who wait."""
        self._to_look |= self._waiting
        super().notify_all()
