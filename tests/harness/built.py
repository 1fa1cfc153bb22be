"""What is built, and made of the sources as they are now."""

from __future__ import annotations

from parts import PARTS, problem


class NotBuilt(Exception):
    """Something that a test needs is not there."""


class OutOfDate(Exception):
    """The sources of something that a test needs have changed since it was built."""


def missing(part: str) -> str | None:
    """Why a part (see tools/parts.py) cannot be used at all, if so."""
    return None if problem(part) is None else PARTS[part].missing()


def require(part: str) -> None:
    """Raises if a part cannot be used, or must not."""
    if (what := missing(part)) is not None:
        raise NotBuilt(what)
    if (what := problem(part)) is not None:
        raise OutOfDate(what)
