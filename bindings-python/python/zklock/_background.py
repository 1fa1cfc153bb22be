"""Threads of this library that run code of the program: log handlers and callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from zklock import _unpatched_threading
from zklock._at_fork import register_at_fork

# The native function, because gevent's replacement returns a different number for each greenlet of a thread.
_get_ident = _unpatched_threading.original("get_ident")


class Background:
    """A background thread that runs one function. A forked child starts its own thread."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        # Linux shows at most 15 characters of it.
        self._name = name
        self._work = work
        self._reset()
        register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._ident: int | None = None
        # Locked until the thread has ended, or has failed to start. This is a native lock, even with gevent.
        self._running = _unpatched_threading.original("allocate_lock")()
        self._running.acquire()

    def begin(self) -> None:
        """Start the thread."""
        try:
            if _unpatched_threading.is_patched():
                # The patched `threading` would start a greenlet in the calling thread, and that greenlet
                # would never be resumed.
                _unpatched_threading.original("start_new_thread")(self._run, ())
            else:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except BaseException:
            self._running.release()
            raise

    def join(self, limit: float) -> None:
        """Wait up to `limit` seconds until the thread has ended.

        Call this only after `begin`. This also waits for a thread that has not started to run yet.
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
