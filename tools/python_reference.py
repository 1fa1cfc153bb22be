"""A griffe extension for the reference of Python.

Examples in docstrings, which begin with `>>>`, are code there too. Classes of the extension module have a
`__new__` where others have an `__init__`: it is their signature. A module begins with the classes that a
program begins with, and ends with its errors.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

FIRST = ("Client", "Mutex", "ReadWriteLock", "Semaphore", "MultiLock", "Election", "Lease")

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(docstring: str) -> str:
    """The same with each example in a block of code."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)


class Reference(griffe.Extension):
    """Changes what mkdocstrings shows."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fences the examples of an object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Shows how an object is made."""
        if "__new__" in cls.members and "__init__" not in cls.members:
            cls.set_member("__init__", cls.members["__new__"])
            if overloads := cls.overloads.get("__new__"):
                cls.overloads["__init__"] = overloads

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Puts its names in order."""

        def rank(name: str) -> tuple[int, bool]:
            if name in FIRST:
                return FIRST.index(name), False
            member = mod.members.get(name)
            return len(FIRST), isinstance(member, griffe.Alias) and "._errors." in member.target_path

        if mod.exports is not None:
            mod.exports = [*sorted((str(name) for name in mod.exports), key=rank)]
