"""Tests of `cohort`: a client hands a lock on between its own waiters."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually, user
from harness.worker import Line, Pending, Worker

COHORT = 4
WAITERS = 7

PROOFS = {"multi", "ping", "getData"}
"""Requests that can be sent at any time: heartbeats, and the watch on a node that is held for a while."""

KINDS: dict[str, dict[str, Any]] = {"mutex": {}, "write": {"kind": "write"}}


def waits(worker: Worker, count: int) -> bool:
    """Return whether a worker's client has this number of waiting attempts."""
    return len(worker.call("health", client="c")["value"]["waits"]) == count


def waiting(worker: Worker, count: int) -> dict[str, Pending]:
    """Start acquires for `waiter-1` to `waiter-{count}` in this order. Return them by owner."""
    asked = {}
    for number in range(1, count + 1):
        owner = f"waiter-{number}"
        asked[owner] = worker.acquire(owner, owner=owner)
        eventually(partial(waits, worker, number), "the attempt waits")
    return asked


def place(line: Line) -> tuple[int, int]:
    """Return the pair of token and hand-off count. The pair grows from each holder to the next."""
    return int(line["token"]), line["handoffs"]


@pytest.mark.parametrize("kind", KINDS)
def test_s860_a_lock_is_handed_on_within_a_client(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start, kind: str
) -> None:
    ours = start(surface)
    ours.connect(proxy.hosts, session_timeout=30)
    ours.lock(path, cohort=COHORT, **KINDS[kind])
    theirs = start("curator")
    theirs.connect(server.hosts)
    theirs.lock(path, **KINDS[kind])
    held = [ours.hold("first", owner="first")]
    asked = waiting(ours, WAITERS)
    # The client's waiters share one node. Curator's contender adds another.
    observer.wait_queue(path, 2)
    foreign = theirs.acquire()
    observer.wait_queue(path, 3)
    # When the last waiter is granted the lock, no other owner of the client waits. The client then deletes
    # the node that its waiters shared.
    *_, last_attempt = asked.values()
    last = "first"
    for owner, attempt in asked.items():
        proxy.reset()
        ours.release(last, owner=last)
        held.append(attempt.expect("acquired"))
        requests = proxy.snapshot().requests
        if held[-1]["handoffs"] == 0:
            # The client now holds the lock with its second node, and its remaining waiters share a third
            # node.
            observer.wait_queue(path, 3)
        elif attempt is not last_attempt:
            assert not set(requests) - PROOFS, requests
        assert not foreign.done, "it is not Curator's turn"
        last = owner
    assert [line["handoffs"] for line in held] == [*range(COHORT), *range(COHORT)]
    assert len({line["node"] for line in held}) == 2
    places = [place(line) for line in held]
    assert places == sorted(set(places))
    # Two nodes of our client were ahead of Curator's node. Each served as many holds as `cohort` permits.
    ours.release(last, owner=last)
    after = foreign.expect("acquired")
    assert int(after["token"]) > places[-1][0]
    theirs.release()
    observer.assert_free(path)
    counts = ours.call("stats", client="c")["value"]
    assert (counts["acquisitions"], counts["handoffs"]) == (WAITERS + 1, WAITERS - 1)


def test_s861_a_handed_on_lock_can_be_lost(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ours, other = start(surface), user(start, surface, server.hosts, path)
    ours.connect(server.hosts)
    ours.lock(path, cohort=COHORT)
    ours.hold("first", owner="first")
    asked = waiting(ours, 3)
    observer.wait_queue(path, 2)
    ours.release("first", owner="first")
    second = asked["waiter-1"].expect("acquired")
    assert second["handoffs"] == 1
    # An operator breaks the lock by deleting the holder's node. The client's waiters stay in the queue.
    other.call("break", client="c", node=second["node"])
    ours.wait_line("lost", lease="waiter-1")
    third = asked["waiter-2"].expect("acquired")
    assert (third["handoffs"], third["node"] == second["node"]) == (0, False)
    ours.release("waiter-1", owner="waiter-1")
    # A late release by an earlier holder does not end the current hold.
    assert ours.check("waiter-2").expect("value")["value"] == "held"
    ours.release("waiter-2", owner="waiter-2")
    asked["waiter-3"].expect("acquired")
    ours.release("waiter-3", owner="waiter-3")
    observer.assert_free(path)


@pytest.mark.timeout(120)
def test_s866_another_client_gets_its_turn_among_clients_that_hand_on(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    most, owners, rounds = 64, 16, 24
    ours, theirs = [start(surface) for _ in range(8)], start("curator")
    for worker in (*ours, theirs):
        worker.connect(server.hosts)
    asked = [worker.contend(path, owners=owners, rounds=rounds, cohort=most) for worker in ours]
    asked.append(theirs.contend(path, owners=1, rounds=10))
    for pending in asked:
        pending.expect("done", 90)
    others = theirs.holds()
    holds = sorted((hold for worker in ours for hold in worker.holds()), key=lambda hold: hold.granted)
    all_holds = sorted((*holds, *others), key=lambda hold: hold.granted)
    assert len(all_holds) == len(ours) * owners * rounds + 10
    for before, after in pairwise(all_holds):
        assert before.until <= after.granted, f"{before} and {after} hold at the same time"
    # The lock is granted to the nodes in the order of their creation. Each node serves up to `cohort` holds.
    tokens = [hold.token or 0 for hold in all_holds]
    assert tokens == sorted(tokens)
    counts = Counter(hold.token for hold in holds)
    assert 1 < max(counts.values()) <= most
    # The contender on Curator waited while nodes were handed on.
    waited = [
        [hold for hold in holds if (other.asked or 0) < hold.granted < other.granted] for other in others
    ]
    assert any(len(during) > len({hold.token for hold in during}) for during in waited)
    observer.assert_free(path)
