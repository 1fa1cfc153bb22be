"""A condition variable whose waiters see every change."""

from __future__ import annotations

import time
from threading import Condition


class FairCondition(Condition):
    """A condition that lets all notified waiters run before other threads can acquire its lock.

    kazoo's lock tests wait until one thread has released a lock, and then until the next thread holds it.
    With a plain condition, the next thread can acquire the lock before the test checks. The test then waits
    forever.
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
        """Wait for a notification. Notified threads enter before all other threads."""
        who = object()
        self._waiting.add(who)
        try:
            return super().wait(timeout)
        finally:
            self._waiting.remove(who)
            self._to_look.discard(who)

    def notify_all(self) -> None:
        """Wake all waiters."""
        self._to_look |= self._waiting
        super().notify_all()
