"""Library threads that run Python code: log handlers, or callbacks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from zklock import _unpatched_threading

# A greenlet that runs in this thread must not be mistaken for it.
_get_ident = _unpatched_threading.original("get_ident")


class Background:
    """A thread that works until there is no more work. A forked child starts its own."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        # The name also works for a thread that `threading` did not start. Linux shows at most 15 characters.
        self._name = name
        self._work = work
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._ident: int | None = None
        # Locked until the thread has ended, or has failed to start. This is a native lock, even with gevent.
        self._running = _unpatched_threading.original("allocate_lock")()
        self._running.acquire()

    def begin(self) -> None:
        """Start the thread."""
        try:
            if _unpatched_threading.is_patched():
                # `threading` would start a greenlet of the calling thread, which would never continue.
                _unpatched_threading.original("start_new_thread")(self._run, ())
            else:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except BaseException:
            self._running.release()
            raise

    def join(self, limit: float) -> None:
        """Wait up to `limit` seconds for the end of the work.

        Call this only after `begin`. The thread might not have started yet.
        """
        if _get_ident() != self._ident and self._running.acquire(timeout=limit):
            self._running.release()

    def _run(self) -> None:
        self._ident, running = _get_ident(), self._running
        threading.current_thread().name = self._name
        try:
            self._work()
        finally:
            running.release()
