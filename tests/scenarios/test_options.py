"""Tests of the options of locks that are created with a hosts string, and of access to a lock's client."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, await_loss

SECURED: dict[str, Any] = {
    "session_timeout": 7,
    "auth": [["digest", "app:secret"]],
    "acl": "creator",
    "label": "nightly",
}

KINDS: dict[str, dict[str, Any]] = {
    "mutex": {"kind": "mutex"},
    "read": {"kind": "read"},
    "write": {"kind": "write"},
    "semaphore": {"kind": "semaphore", "permits": 2},
}
"""The kinds of locks that have a client, and their options."""


@pytest.mark.parametrize("kind", [*KINDS, "election"])
def test_s843_options_of_a_lock_on_hosts(
    surface: str, kind: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, stranger = start(surface), start(surface)
    made = KINDS.get(kind, {"kind": kind})
    given = {"one": SECURED, "equal": dict(SECURED), "other": SECURED | {"session_timeout": 9}, "plain": {}}
    sessions = {}
    for name, options in given.items():
        worker.lock(f"{path}-{name}", lock=name, hosts=server.hosts, options=options, **made)
        sessions[name] = worker.hold(name, lock=name, owner=name)["session"]
    assert sessions["one"] == sessions["equal"], "locks with equal options share a client"
    assert len(set(sessions.values())) == 3
    # The options affect the requests: the lock's ACL excludes other users from its nodes.
    stranger.connect(server.hosts)
    stranger.lock(f"{path}-one", **made)
    assert stranger.acquire().error().code == "AUTH_FAILED"
    directory = f"{path}-one/leases" if kind == "semaphore" else f"{path}-one"
    with pytest.raises(NoAuthError):
        observer.children(directory)
    assert len(observer.children(directory.replace("-one", "-plain"))) == 1
    if kind in KINDS:
        (contender,) = worker.call("contenders", lock="one")["value"]
        assert contender["label"] == "nightly"
        for name, seconds in (("one", 7), ("other", 9)):
            session = worker.call("client", lock=name, client=name)["value"]
            health = worker.call("health", client=name)["value"]
            assert (session, health["session_timeout"]) == (sessions[name], seconds)
    for name in given:
        worker.release(name, owner=name)


@pytest.mark.parametrize("source", ["client", "hosts"])
@pytest.mark.parametrize("kind", KINDS)
def test_s844_the_client_of_a_lock(
    surface: str, kind: str, source: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    if source == "client":
        session = str(worker.connect(server.hosts))
        worker.lock(path, **KINDS[kind])
        assert worker.call("client", lock="m", client="mine")["value"] == session
    else:
        worker.lock(path, hosts=server.hosts, **KINDS[kind])
        assert worker.call("client", lock="m", client="mine")["value"] == "0", (
            "the client connects at the first use"
        )
    line = worker.hold()
    assert worker.call("client", lock="m", client="mine")["value"] == line["session"]
    (hold,) = worker.call("health", client="mine")["value"]["holds"]
    assert (hold["path"], hold["node"]) == (path, line["node"])
    assert worker.call("stats", client="mine")["value"]["acquisitions"] == 1
    # Closing `mine` ends the lease. This shows that `mine` is the lock's own client and not a second client.
    worker.presume_lost()
    worker.call("close", client="mine")
    await_loss(worker)
    observer.assert_free(f"{path}/leases" if kind == "semaphore" else path)
