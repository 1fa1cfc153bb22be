"""Tests of combinations of locks on one path, one per row of the table in docs/interop.md."""

from __future__ import annotations

from collections.abc import Iterable

from harness.mixtures import Mixture, Side
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start
from harness.worker import Worker

OURS = "ours"

MUTEX, READ, WRITE = (Side(OURS, kind) for kind in ("mutex", "read", "write"))
KAZOO_MUTEX, KAZOO_READ, KAZOO_WRITE = (Side(OURS, kind, "kazoo") for kind in ("mutex", "read", "write"))

CURATOR, CURATOR_READ, CURATOR_WRITE = (Side("curator", kind) for kind in ("mutex", "read", "write"))
# kazoo with extra patterns, and kazoo with its own names only.
PATTERNS, PATTERNS_READ, PATTERNS_WRITE = (Side("kazoo", kind) for kind in ("mutex", "read", "write"))
KAZOO, PLAIN_READ, PLAIN_WRITE = (Side("kazoo", kind, "kazoo") for kind in ("mutex", "read", "write"))
GO = Side("go")

EXCLUDE_EACH_OTHER = [
    *((MUTEX, theirs) for theirs in (CURATOR, PATTERNS, PATTERNS_READ, PATTERNS_WRITE, GO)),
    *((WRITE, theirs) for theirs in (CURATOR_READ, CURATOR_WRITE, PATTERNS_READ, PATTERNS_WRITE, GO)),
    *((READ, theirs) for theirs in (CURATOR_WRITE, PATTERNS_WRITE, GO)),
    *((KAZOO_MUTEX, theirs) for theirs in (KAZOO, PLAIN_READ, PLAIN_WRITE)),
    *((KAZOO_MUTEX, theirs) for theirs in (PATTERNS, PATTERNS_READ, PATTERNS_WRITE, GO)),
    *((KAZOO_WRITE, theirs) for theirs in (KAZOO, PLAIN_READ, PLAIN_WRITE)),
    *((KAZOO_WRITE, theirs) for theirs in (PATTERNS, PATTERNS_READ, PATTERNS_WRITE, GO)),
    *((KAZOO_READ, theirs) for theirs in (PLAIN_WRITE, PATTERNS_WRITE, GO)),
]

HOLD_TOGETHER = [
    *((READ, theirs) for theirs in (CURATOR_READ, PATTERNS_READ)),
    *((KAZOO_READ, theirs) for theirs in (PLAIN_READ, PATTERNS_READ)),
]

# Pairs of locks in which the other library ignores zklock's nodes, although zklock waits for the other
# library's nodes.
PEER_IS_GRANTED = [
    *((MUTEX, theirs) for theirs in (CURATOR_READ, CURATOR_WRITE, KAZOO, PLAIN_READ, PLAIN_WRITE)),
    *((WRITE, theirs) for theirs in (CURATOR, PATTERNS, KAZOO, PLAIN_READ, PLAIN_WRITE)),
    *((READ, theirs) for theirs in (CURATOR, PATTERNS, KAZOO, PLAIN_WRITE)),
    *((KAZOO_MUTEX, theirs) for theirs in (CURATOR, CURATOR_READ, CURATOR_WRITE)),
    *((KAZOO_WRITE, theirs) for theirs in (CURATOR, CURATOR_READ, CURATOR_WRITE)),
    *((KAZOO_READ, theirs) for theirs in (CURATOR, CURATOR_WRITE, PATTERNS, KAZOO)),
]


def start_workers(surface: str, server: Standalone, start: Start) -> dict[str, Worker]:
    """Return a connected worker of zklock and of each peer."""
    workers = {OURS: start(surface), **{name: start(name) for name in ("curator", "kazoo", "go")}}
    for worker in workers.values():
        worker.connect(server.hosts)
    return workers


def outcomes(
    pairs: Iterable[tuple[Side, Side]],
    server: Standalone,
    observer: Observer,
    path: str,
    workers: dict[str, Worker],
) -> dict[str, tuple[bool, bool]]:
    """For each pair of locks, return whether the first excludes the second, and vice versa."""
    found = {}
    for number, sides in enumerate(pairs):
        mixture = Mixture(server, observer, f"{path}/{number}", sides, [workers[side.who] for side in sides])
        found[" with ".join(map(str, sides))] = (mixture.excludes(0), mixture.excludes(1))
    return found


def test_s172_mixtures_that_work(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = start_workers(surface, server, start)
    found = outcomes(EXCLUDE_EACH_OTHER, server, observer, f"{path}/alone", workers)
    assert found == dict.fromkeys(found, (True, True))
    found = outcomes(HOLD_TOGETHER, server, observer, f"{path}/together", workers)
    assert found == dict.fromkeys(found, (False, False))


def test_s173_mixtures_that_cannot_work(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    found = outcomes(PEER_IS_GRANTED, server, observer, path, start_workers(surface, server, start))
    assert found == dict.fromkeys(found, (False, True))
