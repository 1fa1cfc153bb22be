"""A griffe extension: examples in docstrings, which begin with `>>>`, are code in the reference too."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(docstring: str) -> str:
    """The same with each example in a block of code."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)


class Doctests(griffe.Extension):
    """Changes the docstrings of all objects."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fences the examples of one."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
