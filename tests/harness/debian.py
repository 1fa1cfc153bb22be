"""Debian programs that tools/parts.mk unpacks without installing them, or their configured replacements."""

from __future__ import annotations

import os

from harness.built import require
from parts import PARTS, STAMPS


def started(name: str) -> tuple[str, dict[str, str]]:
    """Return a part's program and its environment. An override in the environment replaces Debian's
    program."""
    part = PARTS[name]
    (program,) = part.products
    if part.override in os.environ:
        return os.environ[part.override], {}
    require(name)
    libraries = sorted({str(library.parent) for library in (STAMPS / name).rglob("*.so*")})
    return str(program), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}
