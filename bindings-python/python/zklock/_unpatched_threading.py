"""Access to native threads and locks, even if gevent or eventlet has replaced them."""

from __future__ import annotations

import _thread
import sys
from typing import Any


def original(name: str) -> Any:
    """Return the unpatched member of `_thread` with this name."""
    if (monkey := sys.modules.get("gevent.monkey")) is not None:
        return monkey.get_original("_thread", name)
    if (patcher := sys.modules.get("eventlet.patcher")) is not None:
        return getattr(patcher.original("_thread"), name)
    return getattr(_thread, name)


def is_patched() -> bool:
    """Return whether `threading` starts greenlets instead of native threads."""
    return original("start_new_thread") is not _thread.start_new_thread
