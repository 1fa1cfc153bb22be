"""Runs the program's callbacks on a thread of their own: they may be slow, outcomes and losses must not."""

from __future__ import annotations

from zklock import _zklock
from zklock._background import Background


def _call_all() -> None:
    # Nothing of a call is kept while the next one is waited for: a lease without references is released.
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
        # Its author is to see it, and the others are to be called.
        _zklock.report_unraisable(error, callback)
    return True


_thread = Background("zklock-callback", _call_all)
begin, join = _thread.begin, _thread.join
