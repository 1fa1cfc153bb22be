"""Tests of many locks held by one client: their cost, and the detection of deleted nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from harness.readwrite import quiet, readwriter
from harness.steps import await_loss

if TYPE_CHECKING:
    from harness.observer import Observer
    from harness.proxy import Proxy
    from harness.server import Standalone
    from harness.steps import Start

# Number of locks, which is greater than the number of watches that a session can have.
HELD = 1_300
# Time in seconds in which the test sends no command. It is long enough to detect a client that polls.
QUIET = 6.0
# The client checks every node within this many seconds.
TURN = 60.0

FEW, MANY = 10, 2_000
# Maximum ratio of the time with `MANY` readers to the time with `FEW`. Regression: the ratio was in the
# hundreds when every reader examined all other readers. The limit is generous, because workers are built
# without optimization and read the names in a listing slowly. core/tests/queue_costs.rs counts instructions.
MOST = 24
# Lower bound in seconds for the time with `FEW` readers. Without it, the ratio would exceed the limit on a
# fast server, only because the listing is longer with `MANY` readers.
FEW_TAKE = 0.004
PAIRS = 15


# Only a heartbeat detects the deletion of a node without a watch. The heartbeats check all nodes within
# `TURN` seconds.
@pytest.mark.timeout(3 * TURN)
def test_s240_held_beyond_the_room_for_watches(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, session_timeout=30)
    paths = [f"{path}/a-lock-among-very-many-others-which-has-a-long-name-{number}" for number in range(HELD)]
    for number, each in enumerate(paths):
        observer.create(each)
        worker.lock(each, lock=str(number))
    asked = [worker.acquire(str(number), lock=str(number)) for number in range(HELD)]
    for pending in asked:
        pending.expect("acquired", TURN)
    # After a while the client watches the nodes that it holds, up to its limit on watches.
    time.sleep(1)
    proxy.reset()
    time.sleep(QUIET)
    requests = proxy.snapshot().requests
    assert requests["getChildren"] + requests["getChildren2"] == 0
    assert requests["multi"] <= QUIET
    # The first node has a watch, the last one does not.
    for number in (0, HELD - 1):
        (node,) = observer.queue(paths[number])
        observer.delete(f"{paths[number]}/{node}")
        await_loss(worker, str(number), TURN)


def test_s241_a_reader_beside_many_held_readers(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = readwriter(start, surface, proxy.hosts, path, session_timeout=30)
    took = {}
    asked_for = {}
    held = 0
    for count in (FEW, MANY):
        asked = [worker.acquire(str(number), lock="r", owner=str(number)) for number in range(held, count)]
        for pending in asked:
            pending.expect("acquired", TURN)
        held = count
        times = []
        quiet(proxy)
        proxy.reset()
        for _ in range(PAIRS):
            began = time.monotonic()
            worker.hold("one more", lock="r", owner="one more")
            worker.release("one more", owner="one more")
            times.append(time.monotonic() - began)
        took[count] = min(times)
        asked_for[count] = proxy.snapshot().requests
        # Ignore requests that do not belong to this reader: the heartbeat, and the watches of long holds.
        for other in ("multi", "getData"):
            del asked_for[count][other]
    # Each reader sends one listing, and many readers cause no further requests.
    assert asked_for[MANY] == asked_for[FEW]
    assert asked_for[MANY].total() == 3 * PAIRS, asked_for
    assert took[MANY] <= MOST * max(took[FEW], FEW_TAKE), took
