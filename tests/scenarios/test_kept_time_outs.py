"""Elections, shared counts, queries and all kinds of locks time out on time."""

from __future__ import annotations

from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_took, assert_within

TIME_OUTS = (0.3, 0.9)
COUNT = 2

# The kind of each lock, its options, and the number of permits that the test holds.
LOCKS: dict[str, tuple[str, dict[str, Any], int | None]] = {
    "election": ("election", {}, None),
    "kazoo": ("mutex", {"naming": "kazoo"}, None),
    "rigid": ("mutex", {"reentrant": False}, None),
    "limited": ("mutex", {"max_hold": 60}, None),
    "taken": ("semaphore", {"shared_count": True}, COUNT),
    "too few": ("semaphore", {"shared_count": True}, None),
    "many": ("semaphore", {"permits": COUNT}, 1),
}


@pytest.mark.parametrize("name", LOCKS)
def test_s794_timeouts_of_every_kind(
    surface: str, name: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """An acquire and a scope both time out on time: never early, and at most 0.2 s late."""
    kind, options, held = LOCKS[name]
    holder, waiter = start(surface), start(surface)
    for worker in (holder, waiter):
        worker.connect(server.hosts)
    if "shared_count" in options:
        options = {"shared_count": f"{path}-count"}
        holder.call("count", client="c", node=f"{path}-count", count=COUNT)
    for worker in (holder, waiter):
        worker.lock(path, kind=kind, **options)
    if name != "too few":
        holder.hold("h", count=held)
    # More permits than exist ("too few"), or than are free ("many").
    asked = {"too few": COUNT + 1, "many": COUNT}.get(name, 1)
    for number, time_out in enumerate(TIME_OUTS):
        count = asked if kind == "semaphore" else None
        late = waiter.acquire(f"l{number}", timeout=time_out, owner="b", count=count)
        assert_took(late.expect("timeout"), late.sent, time_out)
        if asked == 1:
            error = waiter.send("enter", lock="m", scope=f"s{number}", owner="b", timeout=time_out)
            assert error.error().code == "LOCK_TIMEOUT"
            assert_took(error.line(), error.sent, time_out)


QUESTIONS: dict[str, dict[str, Any]] = {
    "leader": {"lock": "e"},
    "candidates": {"lock": "e"},
    "get": {"client": "c", "node": "/a"},
    "count": {"client": "c", "node": "/a", "count": 1},
    "revoke": {"client": "c", "node": "/a/x-lock-0000000001"},
    "break": {"client": "c", "node": "/a/x-lock-0000000001"},
    "locked": {"lock": "s"},
    "contenders": {"lock": "s"},
}


@pytest.mark.parametrize("connect_timeout", [0.7, 1.4])
def test_s795_timeouts_of_queries(
    surface: str, connect_timeout: float, proxy: Proxy, path: str, start: Start
) -> None:
    """The connect timeout limits every query, even of a shared count or an election."""
    worker = start(surface)
    worker.connect(proxy.hosts, connect_timeout=connect_timeout)
    worker.lock(path, lock="e", kind="election")
    worker.lock(path, lock="s", kind="semaphore", shared_count="/a")
    worker.lock(path, lock="m")
    proxy.refuse()
    for question, fields in QUESTIONS.items():
        asked = worker.send(question, **fields)
        error = asked.error()
        assert error.code == "CONNECTION_FAILED", question
        assert_within(error, asked.sent, connect_timeout, late=0.4)
        assert (error.t - asked.sent) / 1e9 >= connect_timeout / 2, question
    for lock in ("m", "s", "e"):
        asked = worker.send("try", lock=lock, lease=lock, owner="b")
        error = asked.error()
        assert error.code == "CONNECTION_FAILED", lock
        assert_within(error, asked.sent, connect_timeout, late=0.4)
        assert (error.t - asked.sent) / 1e9 >= connect_timeout / 2, lock
