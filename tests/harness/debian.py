"""Finds programs that tools/parts.mk unpacks from Debian packages without installing them."""

from __future__ import annotations

import os

from harness.built import require
from parts import PARTS, STAMPS


def started(name: str) -> tuple[str, dict[str, str]]:
    """Return the path of a program, and the environment in which to run it.

    An environment variable (`override` in tools/parts.py) can name another program to use.
    """
    part = PARTS[name]
    (program,) = part.products
    if part.override in os.environ:
        return os.environ[part.override], {}
    require(name)
    libraries = sorted({str(library.parent) for library in (STAMPS / name).rglob("*.so*")})
    return str(program), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}
