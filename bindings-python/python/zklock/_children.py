"""Children of `multiprocessing`: they end by `os._exit`, and never come to the handlers of `atexit`."""

import sys

from zklock import _zklock

# After those of the program, which may use locks.
_LAST = -1000


def close_at_end() -> None:
    """Have the clients of such a child closed at its end. Called before a process uses its first."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _zklock.shutdown, exitpriority=_LAST)
