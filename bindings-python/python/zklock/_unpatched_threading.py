"""The system's threads and locks, also where gevent or eventlet has replaced them by greenlets'."""

from __future__ import annotations

import _thread
import sys
from typing import Any


def original(name: str) -> Any:
    """Return what `_thread` had by this name before it was patched, if it was."""
    if (monkey := sys.modules.get("gevent.monkey")) is not None:
        return monkey.get_original("_thread", name)
    if (patcher := sys.modules.get("eventlet.patcher")) is not None:
        return getattr(patcher.original("_thread"), name)
    return getattr(_thread, name)


def is_patched() -> bool:
    """Whether `threading` starts greenlets."""
    return original("start_new_thread") is not _thread.start_new_thread
