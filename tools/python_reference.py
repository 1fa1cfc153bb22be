"""A griffe extension for the Python reference: `>>>` begins a code block, and `__new__` is a constructor."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Reference(griffe.Extension):
    """The changes to the output of mkdocstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of an object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show a class's constructor."""
        if "__new__" in cls.members and "__init__" not in cls.members:
            cls.set_member("__init__", cls.members["__new__"])
