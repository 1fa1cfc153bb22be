"""Programs of Debian that are unpacked and not installed (tools/build.py), or others in their place."""

from __future__ import annotations

import os

from harness.built import require
from parts import PARTS, STAMPS


def started(name: str) -> tuple[str, dict[str, str]]:
    """A part's program, the one that is named in the environment or Debian's; and what it needs there."""
    part = PARTS[name]
    (program,) = part.products
    assert part.override is not None
    if part.override in os.environ:
        return os.environ[part.override], {}
    require(name)
    libraries = sorted({str(library.parent) for library in (STAMPS / name).rglob("*.so*")})
    return str(program), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}
