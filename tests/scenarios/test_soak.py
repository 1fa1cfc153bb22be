"""Clients of all kinds contend for locks.

Each surface runs for a few seconds, and all surfaces together run for a minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.observer import Observer
from harness.server import Standalone
from harness.soak import Part, soak
from harness.steps import Start
from harness.worker import Worker

SHORT = 1.5
LONG = 60.0
OURS = ["python", "aio", "node", "node", "rust"]
CURATORS = ["curator", "curator"]
# Curator does not see kazoo's nodes, so no mutex is shared by kazoo and Curator (S173).
MUTEX_PEERS = [pytest.param([*CURATORS, "go"], id="curator"), pytest.param(["kazoo", "go"], id="kazoo")]
PERMITS = 3


def connected(start: Start, names: Sequence[str], server: Standalone) -> list[Worker]:
    workers = [start(name) for name in names]
    for worker in workers:
        worker.connect(server.hosts)
    return workers


def mutex(
    names: Sequence[str], length: float, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # The parent is persistent, because kazoo creates it only once.
    observer.create(path)
    workers = connected(start, names, server)
    soak([Part(worker) for worker in workers], path, length)
    assert observer.children(path) == []


def readwrite(
    names: Sequence[str], length: float, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    workers = connected(start, names, server)
    parts = [Part(worker, "read") for worker in workers] + [Part(worker, "write", 1) for worker in workers]
    soak(parts, path, length)
    assert observer.children(path) == []


def semaphore(
    names: Sequence[str], length: float, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = connected(start, names, server)
    soak([Part(worker, "semaphore", permits=PERMITS) for worker in workers], path, length)
    observer.assert_free(f"{path}/leases")
    observer.assert_free(f"{path}/locks")


@pytest.mark.parametrize("peers", MUTEX_PEERS)
def test_s169_a_mutex_of_all_kinds(
    surface: str, peers: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    mutex([surface, surface, *peers], SHORT, server, observer, path, start)


def test_s170_a_readwrite_lock_of_all_kinds(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    readwrite([surface, surface, "curator"], SHORT, server, observer, path, start)


def test_s171_a_semaphore_of_all_kinds(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    semaphore([surface, surface, "curator"], SHORT, server, observer, path, start)


@pytest.mark.soak
@pytest.mark.timeout(LONG + 60)
@pytest.mark.parametrize("peers", MUTEX_PEERS)
def test_s169_long(peers: list[str], server: Standalone, observer: Observer, path: str, start: Start) -> None:
    mutex([*OURS, *peers], LONG, server, observer, path, start)


@pytest.mark.soak
@pytest.mark.timeout(LONG + 60)
def test_s170_long(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    readwrite([*OURS, *CURATORS], LONG, server, observer, path, start)


@pytest.mark.soak
@pytest.mark.timeout(LONG + 60)
def test_s171_long(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    semaphore([*OURS, *CURATORS], LONG, server, observer, path, start)
