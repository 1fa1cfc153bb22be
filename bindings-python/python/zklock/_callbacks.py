"""Runs the program's callbacks on a thread of their own: they may be slow, outcomes and losses must not."""

from __future__ import annotations

import os
import threading

from zklock import _native, _zklock

# The thread's name, also where it is none of `threading`'s. Linux shows no longer one.
_NAME = "zklock-callback"

# A greenlet that a callback runs in must not be taken for it.
_get_ident = _native.original("get_ident")
_ident: int | None = None
# Locked until the thread has ended, or cannot start; not a greenlet's lock.
_running = _native.original("allocate_lock")()
_running.acquire()


def begin() -> None:
    """Begin to call."""
    if _native.is_patched():
        # `threading` would start a greenlet of the calling thread, and it would never let that one go on.
        _native.original("start_new_thread")(_run, ())
    else:
        threading.Thread(target=_run, name=_NAME, daemon=True).start()


def join(limit: float) -> None:
    """Wait up to `limit` seconds until everything that is due was called."""
    if _get_ident() != _ident and _running.acquire(timeout=limit):
        _running.release()


def _begin_anew() -> None:
    global _ident, _running
    _ident, _running = None, _native.original("allocate_lock")()
    _running.acquire()


# A forked child does not have the thread; the first callback that it registers starts one.
os.register_at_fork(after_in_child=_begin_anew)


def _run() -> None:
    global _ident
    _ident, running = _get_ident(), _running
    threading.current_thread().name = _NAME
    try:
        # Nothing of a call is kept while the next one is waited for: a lease without references is released.
        while _call_next():
            pass
    finally:
        running.release()


def _call_next() -> bool:
    due = _zklock.next_callback()
    if due is None:
        return False
    callback, argument = due
    del due
    try:
        callback(argument)
    except BaseException as error:
        # Its author is to see it, and the others are to be called.
        _zklock.report_unraisable(error, callback)
    return True
