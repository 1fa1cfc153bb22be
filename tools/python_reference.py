"""A griffe extension for the Python reference.

Examples in docstrings, which begin with `>>>`, become code blocks. Classes of the extension module have their
signature in `__new__` instead of `__init__`. A module shows the most important classes first and its errors
last.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

FIRST = ("Client", "Mutex", "ReadWriteLock", "Semaphore", "MultiLock", "Election", "Lease")

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(docstring: str) -> str:
    """Return the docstring with each example in a code block."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)


class Reference(griffe.Extension):
    """The changes to the output of mkdocstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of an object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show a class's constructor."""
        if "__new__" in cls.members and "__init__" not in cls.members:
            cls.set_member("__init__", cls.members["__new__"])
            if overloads := cls.overloads.get("__new__"):
                cls.overloads["__init__"] = overloads

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Sort the names of a module."""

        def rank(name: str) -> tuple[int, bool]:
            if name in FIRST:
                return FIRST.index(name), False
            member = mod.members.get(name)
            return len(FIRST), isinstance(member, griffe.Alias) and "._errors." in member.target_path

        if mod.exports is not None:
            mod.exports = [*sorted((str(name) for name in mod.exports), key=rank)]
