"""This release and the previous one understand each other's nodes, data and requests."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import counting
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, line_up, user
from harness.surfaces import PREVIOUS
from harness.worker import Line, Worker

# The fields of a contender in the data of its node.
FIELDS = ("host", "pid", "language", "label", "since")
OURS, THEIRS = (True, False), (False, True)


def pair(start: Start, surface: str, hosts: str, path: str, order: tuple[bool, bool]) -> list[Worker]:
    """Return one worker of this release and one of the previous release. Each has a lock with a label."""
    workers = [user(start, surface if ours else PREVIOUS.name, hosts, path) for ours in order]
    for worker in workers:
        worker.lock(path, lock="m", label=f"of {worker.name}")
    return workers


@pytest.mark.parametrize("order", [OURS, THEIRS], ids=["ours-first", "theirs-first"])
def test_s684_one_queue_of_two_releases(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start, order: tuple[bool, bool]
) -> None:
    workers = [
        *pair(start, surface, server.hosts, path, order),
        *pair(start, surface, server.hosts, path, order),
    ]
    holder, *others = workers
    node = holder.hold()["node"]
    waiting = line_up(observer, path, others, owner="main")
    queue = observer.queue(path)
    # Each worker reads the data of all nodes, and all workers get the same result.
    seen: list[list[Line]] = [worker.call("contenders", lock="m")["value"] for worker in workers]
    for found in seen:
        assert [one["node"] for one in found] == [f"{path}/{name}" for name in queue]
        assert [one["pid"] for one in found] == [worker.pid for worker in workers]
        assert [one["label"] for one in found] == [f"of {worker.name}" for worker in workers]
        assert [[one[name] for name in FIELDS] for one in found] == [
            [one[name] for name in FIELDS] for one in seen[0]
        ]
    # In each direction, a client of one release asks a client of the other release to give up the lock. The
    # holder is notified.
    for asked, asker, lease, place in ((holder, others[0], "l", 0), (others[0], others[1], "l", 1)):
        asked.call("listen", lease=lease)
        asker.call("revoke", client="c", node=f"{path}/{queue[place]}")
        asked.wait_line("revoked", lease=lease)
        asked.release(lease)
        waiting[place].expect("acquired")
    assert node == f"{path}/{queue[0]}"
    # Grants follow the order of the queue.
    assert not waiting[2].done
    others[1].release()
    waiting[2].expect("acquired")
    others[2].release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=len(workers))
    observer.assert_free(path)


@pytest.mark.parametrize("order", [OURS, THEIRS], ids=["ours-first", "theirs-first"])
def test_s684_contention_of_two_releases(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start, order: tuple[bool, bool]
) -> None:
    workers = pair(start, surface, server.hosts, path, order)
    options = {"path": path, "owners": 2, "objects": "shared", "rounds": 10, "hold_ms": [0, 2]}
    running = [worker.send("contend", client="c", **options) for worker in workers]
    for pending in running:
        assert pending.expect("done", 60)["count"] == 20
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=40)
    observer.assert_free(path)


@pytest.mark.parametrize("order", [OURS, THEIRS], ids=["ours-first", "theirs-first"])
def test_s685_readers_and_permits_of_two_releases(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start, order: tuple[bool, bool]
) -> None:
    names = [surface if ours else PREVIOUS.name for ours in order]
    one, other = (readwriter(start, name, server.hosts, f"{path}/rw") for name in names)
    one.hold("read", lock="r")
    other.hold("read", lock="r")
    writing = one.acquire("write", lock="w", owner="writer")
    observer.wait_queue(f"{path}/rw", 3)
    behind = other.acquire("behind", lock="r", owner="reader")
    observer.wait_queue(f"{path}/rw", 4)
    one.release("read")
    assert not writing.done
    other.release("read")
    writing.expect("acquired")
    assert not behind.done
    one.release("write", owner="writer")
    behind.expect("acquired")
    other.release("behind", owner="reader")
    # The nodes' data contains the number of permits.
    first, second = (counting(start, name, server.hosts, f"{path}/s", 2) for name in names)
    first.hold("p")
    second.hold("p")
    second.lock(f"{path}/s", lock="wrong", kind="semaphore", permits=3)
    assert second.acquire("q", lock="wrong", owner="b").error().code == "PERMITS_MISMATCH"
    for worker in (first, second):
        worker.release("p")
    assert_clean([hold for worker in (one, other, first, second) for hold in worker.holds()], at_least=6)
