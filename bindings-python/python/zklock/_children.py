"""Children of `multiprocessing`, which end by `os._exit` and so never reach the handlers of `atexit`."""

import sys

from zklock import _zklock

# After those of the program, which may still use locks.
_LAST = -1000


def close_at_end() -> None:
    """Close the clients of such a child when it ends. Called before a process uses its first client."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _zklock.shutdown, exitpriority=_LAST)
