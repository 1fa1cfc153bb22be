"""Registers functions that run when the process forks. Windows has no fork, so they never run there."""

from __future__ import annotations

import sys
from collections.abc import Callable

if sys.platform == "win32":

    def register_at_fork(
        *,
        before: Callable[[], object] | None = None,
        after_in_parent: Callable[[], object] | None = None,
        after_in_child: Callable[[], object] | None = None,
    ) -> None:
        """Do nothing, in place of the function of `os` that Windows lacks."""

else:
    from os import register_at_fork

__all__ = ["register_at_fork"]
