"""Creates locks again from what `pickle` and `copy` keep of them.

Pickled locks refer to these functions by name.
"""

from __future__ import annotations

from typing import Any


def make(kind: Any, hosts: str | None, path: str, options: dict[str, Any]) -> Any:
    """A lock of this class."""
    return kind(hosts, path, **options)


def again(kind: Any, keywords: dict[str, Any]) -> Any:
    """An object of a class that takes these arguments by keyword."""
    return kind(**keywords)


def half(lock: Any, name: str) -> Any:
    """A half of a read/write lock."""
    return getattr(lock, name)
