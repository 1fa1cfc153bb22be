"""Tests of the statements in docs/interop.md about lock libraries that share a path."""

from __future__ import annotations

import pytest

from harness.mixtures import Mixture, Side
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, user

CURATOR, CURATOR_READ, CURATOR_WRITE = (Side("curator", kind) for kind in ("mutex", "read", "write"))
PATTERNS = Side("kazoo")
KAZOO, KAZOO_READ, KAZOO_WRITE = (Side("kazoo", kind, "kazoo") for kind in ("mutex", "read", "write"))
GO = Side("go")

# For each pair: whether the first client excludes the second one, and whether the second excludes the first.
FACTS = {
    (GO, CURATOR): (True, True),
    (GO, PATTERNS): (True, True),
    (GO, KAZOO): (False, True),
    (GO, CURATOR_READ): (False, True),
    (GO, CURATOR_WRITE): (False, True),
    (CURATOR, PATTERNS): (True, False),
    (CURATOR, KAZOO): (False, False),
}


def test_peers(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    workers = {name: start(name) for name in ("curator", "kazoo", "go")}
    for worker in workers.values():
        worker.connect(server.hosts)
    for number, (sides, expected) in enumerate(FACTS.items()):
        mixture = Mixture(server, observer, f"{path}/{number}", sides, [workers[side.who] for side in sides])
        assert (mixture.excludes(0), mixture.excludes(1)) == expected, " with ".join(map(str, sides))


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ((CURATOR, CURATOR_READ), (False, False)),
        ((CURATOR, CURATOR_WRITE), (False, False)),
        ((KAZOO, KAZOO_READ), (True, False)),
        ((KAZOO, KAZOO_WRITE), (True, True)),
    ],
    ids=lambda value: " with ".join(map(str, value)),
)
def test_two_kinds_of_one_peer(
    sides: tuple[Side, Side],
    expected: tuple[bool, bool],
    server: Standalone,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    pair = [start(side.who) for side in sides]
    for worker in pair:
        worker.connect(server.hosts)
    mixture = Mixture(server, observer, path, sides, pair)
    assert (mixture.excludes(0), mixture.excludes(1)) == expected


def test_go_next_to_other_nodes(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    observer.create(f"{path}/config")
    go = user(start, "go", server.hosts, path)
    assert "config" in go.acquire().error().message
    # The acquire failed, but it has left its node, which still blocks every other contender.
    observer.wait_queue(path, 1)
    go.exit()
    observer.wait_queue(path, 0)
