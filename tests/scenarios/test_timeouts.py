"""Acquires of every kind of lock time out on time, even if the server stops replying during an acquire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.kinds import (
    WAITS,
    acquire_all,
    all_empty,
    directories,
    make_locks,
    occupy,
    release_all,
    wait_queued,
)
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_took
from harness.worker import Pending, Worker

TIMEOUT = 1.0


def assert_in_time(asked: list[Pending], timeout: float = TIMEOUT) -> None:
    """Assert that each attempt times out on time."""
    for pending in asked:
        assert_took(pending.expect("timeout"), pending.sent, timeout)


def assert_nothing_left(worker: Worker, observer: Observer, path: str) -> None:
    """Assert that a client can acquire every lock again after an outage, and that no node is left."""
    # The requests that the proxy held back during the outage arrive at the server before these new ones.
    for pending in acquire_all(worker):
        pending.expect("acquired")
    for name in WAITS:
        worker.release(name, owner=name)
    all_empty(observer, path)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s20_server_away_at_acquire(
    surface: str, how: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts)
    make_locks(worker, path)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    assert_in_time(acquire_all(worker, TIMEOUT))
    (proxy.accept if how == "refused" else proxy.heal)()
    assert_nothing_left(worker, observer, path)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s55_server_away_at_first_use(
    surface: str, how: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    make_locks(worker, path, hosts=proxy.hosts)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    assert_in_time(acquire_all(worker, TIMEOUT))
    (proxy.accept if how == "refused" else proxy.heal)()
    assert_nothing_left(worker, observer, path)


@pytest.fixture
def proxies(server: Standalone) -> Iterator[dict[str, Proxy]]:
    """Provide a proxy for each kind of lock, because each needs a silent server at a different moment."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(Proxy(server.hosts)) for kind in WAITS}


def test_s20_silence_behind_the_create(
    surface: str, proxies: dict[str, Proxy], observer: Observer, path: str, start: Start
) -> None:
    for directory in directories(path):
        observer.create(directory)
    worker = start(surface)
    for kind, proxy in proxies.items():
        worker.connect(proxy.hosts, client=kind)
    make_locks(worker, path, client_each=True)
    # A contender of a semaphore creates a node in the semaphore's queue, and then a permit node. Skip the
    # first create.
    traps = [
        proxy.black_hole_behind("create2", skip=int(kind == "permit")) for kind, proxy in proxies.items()
    ]
    asked = acquire_all(worker, TIMEOUT)
    for trap in traps:
        trap.wait()
    assert_in_time(asked)
    for proxy in proxies.values():
        proxy.heal()
    all_empty(observer, path)


def test_s20_silence_while_waiting(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, worker = start(surface), start(surface)
    holder.connect(server.hosts)
    occupy(holder, path, observer)
    worker.connect(proxy.hosts)
    make_locks(worker, path)
    # Long enough for all waiters to join the queue first.
    asked = acquire_all(worker, 3 * TIMEOUT)
    wait_queued(observer, path)
    proxy.black_hole()
    assert_in_time(asked, 3 * TIMEOUT)
    proxy.heal()
    release_all(holder)
    all_empty(observer, path)
