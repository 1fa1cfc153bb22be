"""Floods of unsolicited events and replies, as fast as the client reads them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import jute, tells
from harness.liar.frames import at
from harness.liar.held import watched
from harness.liar.server import Lie
from harness.liar.truth import DIRECTORY

SECONDS = 1.0
"""Duration of one flood in seconds. A flood runs each time its step is reached."""


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return list(_floods())


def _floods() -> Iterator[Lie]:
    for name, kind in {"created": 1, "changed": 3, "children changed": 4}.items():
        known = tells.flood(lambda exchange, kind=kind: jute.event(kind, watched(exchange)), SECONDS)  # type: ignore[misc]
        yield at(f"a flood: the node before it {name}", "watch", known)
    for name, path in {
        "elsewhere": "/x/y/z",
        "in the directory": f"{DIRECTORY}/_c_9-lock-0000000999",
    }.items():
        flood = tells.flood(lambda _, path=path: jute.event(2, path), SECONDS)  # type: ignore[misc]
        yield at(f"a flood: a node {name} deleted", "watch", flood)
        yield at(f"a flood to a holder: a node {name} deleted", "beat", flood)
    pings = tells.flood(lambda exchange: exchange.framed(xid=-2), SECONDS)
    yield at("a flood of answers to pings", "beat", pings)
