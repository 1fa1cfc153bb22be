"""Which parts are built, and from their current sources."""

from __future__ import annotations

from parts import PARTS, problem


class NotBuilt(Exception):
    """Something that a test needs is not built."""


class OutOfDate(Exception):
    """The sources of something that a test needs have changed since it was built."""


def missing(part: str) -> str | None:
    """Why a part (see tools/parts.py) cannot be used at all, if it cannot."""
    return None if problem(part) is None else PARTS[part].missing()


def require(part: str) -> None:
    """Raises if a part cannot, or must not, be used."""
    if (what := missing(part)) is not None:
        raise NotBuilt(what)
    if (what := problem(part)) is not None:
        raise OutOfDate(what)
