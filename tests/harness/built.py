"""Checks which parts are built. `make PART` builds a part again if its sources have changed."""

from __future__ import annotations

from parts import PARTS


class NotBuilt(Exception):
    """A part that a test needs is not built."""


class Excluded(NotBuilt):
    """A part that a test needs is deliberately excluded from this run."""


_forgone: set[str] = set()


def exclude(part: str) -> None:
    """Exclude a part from this run, as if this machine could not provide it."""
    _forgone.add(part)


def missing(part: str) -> str | None:
    """Return the reason why a part of the build (see tools/parts.py) cannot be used, or None if it can."""
    if part in _forgone:
        return f"this run does without {PARTS[part].shown}"
    return PARTS[part].lacking() or PARTS[part].problem()


def require(part: str, what_for: str = "") -> None:
    """Raise an exception if a part cannot or must not be used."""
    if (what := missing(part)) is not None:
        kind = Excluded if part in _forgone else NotBuilt
        raise kind(f"{what_for}: {what}" if what_for else what)
