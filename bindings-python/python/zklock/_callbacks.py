"""The thread that runs the program's callbacks: they can be slow, but outcomes and losses must not wait."""

from __future__ import annotations

from zklock import _zklock
from zklock._background import Background


def _call_all() -> None:
    # Keep no reference of one call while waiting for the next: a lease without references is released.
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
        # Report the error, so that its author sees it, and continue with the other callbacks.
        _zklock.report_unraisable(error, callback)
    return True


_thread = Background("zklock-callback", _call_all)
begin, join = _thread.begin, _thread.join
