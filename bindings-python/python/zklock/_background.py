"""A thread of the library's own that runs Python code: handlers of the log, or callbacks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from zklock import _unpatched_threading

# A greenlet that runs in it must not be taken for it.
_get_ident = _unpatched_threading.original("get_ident")


class Background:
    """A thread that does its work until there will be no more. A forked child begins its own."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        # Also where it is none of `threading`'s. Linux shows at most 15 characters.
        self._name = name
        self._work = work
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._ident: int | None = None
        # Locked until the thread has ended, or cannot start; not a greenlet's lock.
        self._running = _unpatched_threading.original("allocate_lock")()
        self._running.acquire()

    def begin(self) -> None:
        """Begin to work."""
        try:
            if _unpatched_threading.is_patched():
                # `threading` would start a greenlet of the calling thread, which would never go on.
                _unpatched_threading.original("start_new_thread")(self._run, ())
            else:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except BaseException:
            self._running.release()
            raise

    def join(self, limit: float) -> None:
        """Wait up to `limit` seconds for the end of the work.

        Called once it has begun, but perhaps before the thread has started.
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
