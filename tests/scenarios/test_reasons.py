"""Errors state why an acquire failed: the lock is taken, no server replies, or the reason is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, user
from harness.worker import Worker

TIMEOUT = 0.5

# Long enough for a few replies, even on a busy machine.
AMPLE = 3.0

#: For each kind of lock: the options of its holder, and those of a later contender.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mutex": ({}, {}),
    "semaphore": ({"kind": "semaphore", "permits": 1}, {"kind": "semaphore", "permits": 1}),
    "read": ({"kind": "write"}, {"kind": "read"}),
    "election": ({"kind": "election"}, {"kind": "election"}),
}


@contextmanager
def silent(proxy: Proxy) -> Iterator[None]:
    """Run the block while the server sends nothing, although its connections seem to work."""
    proxy.black_hole()
    try:
        yield
    finally:
        proxy.heal()


def lock_of_several(worker: Worker, path: str) -> None:
    """Create a lock of two members, the second of which is on the path."""
    worker.lock(f"{path}-0", lock="first")
    worker.lock(path, lock="second")
    worker.call("lock", lock="m", kind="multi", members=["first", "second"])


@pytest.mark.parametrize("timeout", [0, AMPLE])
@pytest.mark.parametrize("kind", [*KINDS, "multi"])
def test_s670_taken(
    surface: str, server: Standalone, path: str, start: Start, kind: str, timeout: float
) -> None:
    held, wanted = KINDS.get(kind, ({}, {}))
    holder = start(surface)
    holder.connect(server.hosts)
    holder.lock(path, **held)
    holder.hold()
    worker = start(surface)
    worker.connect(server.hosts)
    if kind == "multi":
        lock_of_several(worker, path)
    else:
        worker.lock(path, **wanted)
    error = worker.fail_to_enter(timeout)
    assert (error.code, error.reason) == ("LOCK_TIMEOUT", "taken")
    assert f'"{path}"' in error.message
    holder.release()


@pytest.mark.parametrize("kind", KINDS)
def test_s671_s673_a_silent_server(surface: str, proxy: Proxy, path: str, start: Start, kind: str) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts)
    worker.lock(path, **KINDS[kind][1])
    with silent(proxy):
        tried = worker.fail_to_enter(0, connect_timeout=TIMEOUT)
        waited = worker.fail_to_enter(TIMEOUT)
    assert tried.code == "CONNECTION_FAILED"
    assert (waited.code, waited.reason) == ("LOCK_TIMEOUT", "unreachable")


@pytest.mark.parametrize("kind", ["mutex", "semaphore"])
def test_s671_s673_no_server(surface: str, path: str, start: Start, kind: str) -> None:
    worker = start(surface)
    worker.lock(path, hosts="127.0.0.1:1", **KINDS[kind][1])
    waited = worker.fail_to_enter(TIMEOUT)
    assert (waited.code, waited.reason) == ("LOCK_TIMEOUT", "unreachable")
    assert waited.servers == [["127.0.0.1:1", "refused"]]
    tried = worker.fail_to_enter(0, connect_timeout=TIMEOUT)
    assert tried.code == "CONNECTION_FAILED"
    assert tried.servers == [["127.0.0.1:1", "refused"]]


def test_s672_replies_without_a_contender_ahead(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path)
    trap = proxy.black_hole_behind("create2")
    error = worker.fail_to_enter(TIMEOUT)
    assert trap.triggered
    proxy.heal()
    assert (error.code, error.reason) == ("LOCK_TIMEOUT", "unknown")


def test_s673_a_try_beside_a_waiter_without_an_answer(
    surface: str, proxy: Proxy, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    with silent(proxy):
        waiting = worker.send("acquire", lock="m", lease="l", owner="a", timeout=4 * TIMEOUT)
        tried = worker.fail_to_enter(0, connect_timeout=TIMEOUT)
        assert waiting.result()["event"] == "timeout"
    assert tried.code == "CONNECTION_FAILED"


def test_s674_holders_of_permits(surface: str, server: Standalone, path: str, start: Start) -> None:
    for permits in ({"permits": 2}, {"shared_count": path + "-count"}):
        lock = f"{path}-{next(iter(permits))}"
        holders = [start(surface) for _ in range(2)]
        for number, holder in enumerate(holders):
            holder.connect(server.hosts, label=f"n{number}")
            holder.call("count", client="c", node=path + "-count", count=2)
            holder.lock(lock, kind="semaphore", **permits)
            holder.hold()
        worker = start(surface)
        worker.connect(server.hosts)
        worker.lock(lock, kind="semaphore", **permits)
        error = worker.fail_to_enter(AMPLE)
        assert (error.code, error.reason) == ("LOCK_TIMEOUT", "taken")
        assert [(one["pid"], one["label"]) for one in error.blockers] == [
            (holder.pid, f"n{number}") for number, holder in enumerate(holders)
        ]
        assert "(n0)" in error.message
        assert "which has a permit" in error.message
        for holder in holders:
            holder.release()
