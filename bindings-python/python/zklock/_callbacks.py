"""Runs the program's callbacks on a separate thread, because they can be slow."""

from __future__ import annotations

from zklock import _zklock
from zklock._background import Background


def _call_all() -> None:
    # A separate function, so that no reference to a lease remains while this thread waits for the next
    # callback: a lease without references must be released.
    while _call_next():
        pass


def _call_next() -> bool:
    due = _zklock.next_callback()
    if due is None:
        return False
    callback, argument = due
    del due
    try:
        callback(argument)
    except BaseException as error:
        # Report the error, and continue with the other callbacks.
        _zklock.report_unraisable(error, callback)
    return True


_thread = Background("zklock-callback", _call_all)
begin, join = _thread.begin, _thread.join
