"""Tests of `linger`: the client keeps a lock's node for a while after the release."""

from __future__ import annotations

from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import GRANT, Start, eventually, user
from harness.worker import Worker

LONG = 600
"""Time in seconds that is longer than any of these tests."""

PROOFS = {"multi", "ping", "getData"}
"""Requests that can be sent at any time: heartbeats, and the watch on a node that is held for a while."""

KINDS: dict[str, dict[str, Any]] = {"mutex": {}, "read": {"kind": "read"}, "write": {"kind": "write"}}


def retakes(worker: Worker) -> int:
    return int(worker.call("stats", client="c")["value"]["retakes"])


def keep(worker: Worker, proxy: Proxy) -> dict[str, Any]:
    """Acquire and release the lock until an acquire and its release send no request. Return the
    worker's last reply.
    """
    last: dict[str, Any] = {}

    def quiet() -> bool:
        proxy.reset()
        last.update(worker.hold("again", owner="again"))
        worker.release("again", owner="again")
        return not set(proxy.snapshot().requests) - PROOFS

    eventually(quiet, "the lock is kept")
    return last


@pytest.mark.parametrize("kind", KINDS)
def test_s862_a_lock_is_taken_again_without_a_request(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start, kind: str
) -> None:
    ours = start(surface)
    ours.connect(proxy.hosts, session_timeout=30)
    ours.lock(path, linger=LONG, **KINDS[kind])
    kept = keep(ours, proxy)
    before = retakes(ours)
    proxy.reset()
    for number in range(1, 101):
        line = ours.hold("again", owner="again")
        assert (line["token"], line["handoffs"]) == (kept["token"], kept["handoffs"] + number)
        ours.release("again", owner="again")
    assert not set(proxy.snapshot().requests) - PROOFS
    assert retakes(ours) - before == 100
    observer.wait_queue(path, 1)
    # Closing the client removes the node.
    ours.call("close", client="c")
    observer.assert_free(path)


@pytest.mark.parametrize("peer", ["curator", "kazoo", "go"])
def test_s863_a_contender_of_a_peer_gets_a_lock_that_is_kept(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start, peer: str
) -> None:
    ours, theirs = start(surface), user(start, peer, server.hosts, path)
    ours.connect(proxy.hosts, session_timeout=30)
    ours.lock(path, linger=LONG)
    for _ in range(3):
        kept = keep(ours, proxy)
        observer.wait_queue(path, 1)
        theirs.hold("theirs")
        # Our client no longer has the kept node, so it waits for the peer like any other contender.
        ours.acquire("early", timeout=0.2).expect("timeout")
        theirs.release("theirs")
        again = keep(ours, proxy)
        assert int(again["token"]) > int(kept["token"])


def test_s864_a_lock_that_is_kept_ends_with_its_process(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    ours, other = start(surface), user(start, surface, server.hosts, path)
    ours.connect(proxy.hosts, session_timeout=4)
    ours.lock(path, linger=LONG)
    keep(ours, proxy)
    ours.kill()
    other.hold("next", timeout=GRANT)
    other.release("next")
    observer.assert_free(path)
