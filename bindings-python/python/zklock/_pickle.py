"""Functions that `pickle` and `copy` call to re-create locks.

Pickled locks refer to these functions by name.
"""

from __future__ import annotations

from typing import Any


def make(kind: Any, hosts: str | None, path: str, options: dict[str, Any]) -> Any:
    """Create a lock of this class."""
    return kind(hosts, path, **options)


def again(kind: Any, keywords: dict[str, Any]) -> Any:
    """Create an object of a class that takes these arguments by keyword."""
    return kind(**keywords)


def half(lock: Any, name: str) -> Any:
    """Return a half of a read/write lock."""
    return getattr(lock, name)
