"""Which parts are built, and from their current sources."""

from __future__ import annotations

from parts import PARTS, lacking, problem


class NotBuilt(Exception):
    """Something that a test needs is not built."""


class Forgone(NotBuilt):
    """Something that a test needs is not used in this run, which is meant to do without it."""


class OutOfDate(Exception):
    """The sources of something that a test needs have changed since it was built."""


_forgone: set[str] = set()


def forgo(part: str) -> None:
    """Let this run do without a part, as if it could not be had."""
    _forgone.add(part)


def missing(part: str) -> str | None:
    """Why a part (see tools/parts.py) cannot be used at all, if it cannot."""
    if part in _forgone:
        return f"this run does without {PARTS[part].shown}"
    return lacking(part) or (None if problem(part) is None else PARTS[part].missing())


def require(part: str, what_for: str = "") -> None:
    """Raises if a part cannot, or must not, be used."""
    if (what := missing(part)) is not None:
        kind = Forgone if part in _forgone else NotBuilt
        raise kind(f"{what_for}: {what}" if what_for else what)
    if (what := problem(part)) is not None:
        raise OutOfDate(what)
