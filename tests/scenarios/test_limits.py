"""Tests of holds with a time limit, and of reads and writes of other nodes under a lock."""

from __future__ import annotations

import time

import pytest

from harness.answers import Line, now
from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import all_free, counting, leases_of, turns_of
from harness.server import Standalone
from harness.steps import Start, argument_name, await_loss, line_up, seconds, user
from harness.worker import Worker, WorkerError

LIMIT = 1.5


@pytest.mark.parametrize("kind", ["mutex", "read", "write"])
def test_s395_held_too_long(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start, kind: str
) -> None:
    holder, other = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.lock(path, lock="limited", kind=kind, max_hold=LIMIT)
    # The hold's time limit starts with the grant, which is later than `before`. Therefore the hold is certain
    # until `before` + `LIMIT`.
    before = now()
    first = holder.hold(lock="limited")
    holder.presume_lost(at=before + int(LIMIT * 1e9))
    # A re-entry is part of the same hold and has the same limit.
    again = holder.hold("again", lock="limited")
    assert again["node"] == first["node"]
    assert 0 < holder.call("state", lease="l")["remaining"] <= LIMIT
    (waiting,) = line_up(observer, path, [other])
    assert seconds(waiting.expect("acquired"), before) >= LIMIT
    await_loss(holder)
    await_loss(holder, "again")
    with pytest.raises(WorkerError, match="held too long"):
        holder.check("l").expect("ok")
    other.release()
    # The lock can be acquired again. The new hold has its own limit.
    last = holder.hold("last", lock="limited")
    assert last["node"] != first["node"]
    holder.release("last")
    assert_clean(other.holds(), at_least=1)
    observer.assert_free(path)


def test_s396_a_limit_of_permits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    patient, limited = (
        counting(start, surface, server.hosts, path, 1, **options) for options in ({}, {"max_hold": LIMIT})
    )
    patient.hold()
    waiting = limited.acquire("w")
    observer.wait_queue(leases_of(path), 2)
    turn = observer.queue(turns_of(path))
    # A long wait does not count towards the hold's time limit, and the waiter keeps its position in the
    # queue.
    time.sleep(LIMIT + 0.5)
    assert observer.queue(turns_of(path)) == turn
    before = now()
    patient.release()
    waiting.expect("acquired")
    after = patient.acquire("after", owner="b").expect("acquired")
    assert seconds(after, before) >= LIMIT
    await_loss(limited, "w")
    patient.release("after", owner="b")
    all_free(observer, path)


def test_s397_an_invalid_limit(surface: str, server: Standalone, path: str, start: Start) -> None:
    worker = user(start, surface, server.hosts, path)
    for limit in (0, -1):
        with pytest.raises(WorkerError) as refused:
            worker.lock(path, lock="never", max_hold=limit)
        assert refused.value.code == "BAD_ARGUMENT"
        assert argument_name(surface, "max_hold") in str(refused.value)


def write(worker: Worker, operation: Line) -> None:
    """Execute one operation under the lock."""
    worker.call("transact", lease="l", operations=[operation])


def test_s398_a_write_with_an_expected_version(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    node = f"{path}-report"
    assert worker.call("get", client="c", node=node)["value"] is None
    worker.hold()
    write(worker, {"op": "create", "path": node, "data": "draft"})
    found = worker.call("get", client="c", node=node)["value"]
    assert found == {"data": "draft", "version": 0}
    observer.client.set(node, b"meddled")
    final = {"op": "set_data", "path": node, "data": "final", "version": found["version"]}
    with pytest.raises(WorkerError) as refused:
        write(worker, final)
    assert refused.value.code == "TRANSACTION_FAILED"
    version = worker.call("get", client="c", node=node)["value"]["version"]
    write(worker, final | {"version": version})
    assert worker.call("get", client="c", node=node)["value"] == {"data": "final", "version": 2}
    with pytest.raises(WorkerError) as refused:
        worker.call("get", client="c", node="relative")
    assert refused.value.code == "BAD_ARGUMENT"


def test_s399_a_shared_count_is_set(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # The parents of the node do not exist either.
    count = f"{path}-settings/upstream/permits"
    setter = user(start, surface, server.hosts, path)
    setter.call("count", client="c", node=count, count=1)
    ours, theirs = (
        counting(start, name, server.hosts, path, shared_count=count) for name in (surface, "curator")
    )
    theirs.hold("t")
    waiting = ours.acquire("o")
    observer.wait_queue(leases_of(path), 2)
    setter.call("count", client="c", node=count, count=2)
    waiting.expect("acquired")
    assert observer.client.get(count)[0] == b"\0\0\0\2"
    ours.release("o")
    theirs.release("t")
    all_free(observer, path)
