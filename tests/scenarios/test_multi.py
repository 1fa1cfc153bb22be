"""Tests of multi locks, which acquire all of their member locks or none, always in the same order."""

from __future__ import annotations

import pytest

from harness.embedded import NewServer
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_took, eventually, nothing_watched, user
from harness.worker import Worker

TIMEOUT = 0.5


def member_of_two(
    start: Start, surface: str, hosts: str, path: str, order: str = "ab", kind: str = "mutex"
) -> Worker:
    """Return a worker with locks `a` and `b`, and a multi lock `both` that names them in this order."""
    worker = start(surface)
    worker.connect(hosts)
    for name in "ab":
        worker.lock(f"{path}/{name}", lock=name, kind=kind)
    worker.multi(list(order), lock="both")
    return worker


def all_free(observer: Observer, path: str) -> None:
    """Assert that neither member's queue contains a contender."""
    for name in "ab":
        observer.wait_queue(f"{path}/{name}", 0, timeout=3)


def test_s102_one_order(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    for name in "ab":
        # The parents are persistent. If the server removed a free lock's parent, its sequence numbers would
        # restart.
        observer.create(f"{path}/{name}")
    workers = [member_of_two(start, surface, server.hosts, path, order) for order in ("ab", "ba")]
    for worker in workers:
        leases = worker.hold(lock="both")["leases"]
        assert [lease["node"].split("/")[-2] for lease in leases] == ["a", "b"]
        assert leases[0]["node"].startswith(f"{path}/a/")
        assert [len(observer.queue(f"{path}/{name}")) for name in "ab"] == [1, 1]
        worker.release()
        all_free(observer, path)
    # Without a fixed order, the two callers would deadlock.
    for turn in range(20):
        asked = [worker.acquire(f"t{turn}", lock="both", timeout=20) for worker in workers]
        eventually(lambda: any(pending.done for pending in asked), "one worker holds both")  # noqa: B023
        first = next(place for place, pending in enumerate(asked) if pending.done)
        for place in (first, 1 - first):
            asked[place].expect("acquired")
            workers[place].release(f"t{turn}")
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=2 * (2 + 40))
    all_free(observer, path)


@pytest.mark.parametrize("taken", ["a", "b"])
def test_s103_one_deadline(
    surface: str, taken: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, worker = (member_of_two(start, surface, server.hosts, path) for _ in range(2))
    holder.hold(lock=taken)
    waiting = worker.acquire("w", lock="both", timeout=TIMEOUT)
    line = waiting.expect("timeout")
    assert_took(line, waiting.sent, TIMEOUT)
    for name in "ab":
        observer.wait_queue(f"{path}/{name}", int(name == taken), timeout=2)
    nothing_watched(server, worker, path)
    holder.release()
    worker.hold("w", lock="both")
    worker.release("w")
    assert_clean(holder.holds() + worker.holds(), at_least=3)
    all_free(observer, path)


def test_s104_try(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    holder, worker = (member_of_two(start, surface, server.hosts, path) for _ in range(2))
    holder.hold(lock="b")
    assert worker.try_acquire(lock="both")["event"] == "busy"
    observer.wait_queue(f"{path}/a", 0, timeout=2)
    nothing_watched(server, worker, path)
    holder.release()
    assert len(worker.try_acquire(lock="both")["leases"]) == 2
    assert holder.try_acquire(lock="both")["event"] == "busy"
    worker.release()
    assert_clean(holder.holds() + worker.holds(), at_least=3)
    all_free(observer, path)


def test_s105_members(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.lock(path, lock="again")
    worker.multi(["m", "again", "m"], lock="twice")
    assert len(worker.hold(lock="twice")["leases"]) == 1
    assert len(observer.queue(path)) == 1
    worker.release()
    # A read/write lock acquires its write half first, so that the read half is a downgrade.
    for half in ("read", "write"):
        worker.lock(f"{path}-rw", lock=half, kind=half)
    worker.multi(["read", "write"], lock="halves")
    nodes = [lease["node"] for lease in worker.hold("h", lock="halves")["leases"]]
    assert ["__WRIT__" in node for node in nodes] == [True, False]
    worker.release("h")
    observer.wait_queue(f"{path}-rw", 0, timeout=2)
    # A lock that would wait for itself is refused.
    worker.lock(path, lock="once", reentrant=False)
    worker.lock(path, lock="sem", kind="semaphore", permits=2)
    worker.lock(path, lock="reader", kind="read")
    worker.connect(server.hosts, client="d")
    worker.lock(path, lock="elsewhere", client="d")
    # Use the same path through a client with a chroot, where the path has another name.
    parent, name = path.rsplit("/", 1)
    worker.connect(server.hosts + parent, client="chroot")
    worker.lock(f"/{name}", lock="below", client="chroot")
    for wrong in (
        [],
        ["once", "once"],
        ["m", "elsewhere"],
        ["m", "below"],
        ["m", "reader"],
        ["sem", "sem"],
        ["m", "sem"],
    ):
        error = worker.send_multi(wrong, lock="wrong").error()
        assert error.code == "BAD_ARGUMENT", wrong
        assert "locks" in error.message, wrong
    assert_clean(worker.holds(), at_least=3)


def test_s106_an_owner_that_holds_one(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = member_of_two(start, surface, proxy.hosts, path)
    worker.hold("later", lock="b")
    proxy.reset()
    error = worker.acquire("both", lock="both").error()
    assert error.code == "BAD_ARGUMENT"
    assert f"{path}/a" in error.message
    assert proxy.snapshot().requests["create2"] == 0
    worker.check("later").expect("value")
    worker.release("later")
    # The owner already holds member `a`, so acquiring `both` re-enters `a`. Releasing `both` does not end the
    # earlier hold of `a`.
    worker.hold("earlier", lock="a")
    first, second = worker.hold("both", lock="both")["leases"]
    assert [len(observer.queue(f"{path}/{name}")) for name in "ab"] == [1, 1]
    worker.release("both")
    assert [len(observer.queue(f"{path}/{name}")) for name in "ab"] == [1, 0]
    worker.check("earlier").expect("value")
    worker.release("earlier")
    assert first["node"] != second["node"]
    all_free(observer, path)


def test_s107_mixed_kinds(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    pair = []
    for _ in range(2):
        worker = start(surface)
        worker.connect(server.hosts)
        worker.lock(f"{path}/a", lock="mutex")
        worker.lock(f"{path}/b", lock="reader", kind="read")
        worker.lock(f"{path}/c", lock="writer", kind="write")
        worker.lock(f"{path}/d", lock="permit", kind="semaphore", permits=2)
        worker.multi(["permit", "writer", "reader", "mutex"], lock="all")
        worker.multi(["permit", "reader"], lock="shared")
        pair.append(worker)
    nodes = [lease["node"] for lease in pair[0].hold("l", lock="all")["leases"]]
    assert [node[len(path) + 1] for node in nodes] == ["a", "b", "c", "d"]
    # Both workers can hold the read lock and a permit. The mutex and the write lock exclude the other worker.
    assert len(pair[1].hold("s", lock="shared")["leases"]) == 2
    waiting = pair[1].acquire("w", lock="all", owner="b")
    observer.wait_queue(f"{path}/a", 2)
    assert not waiting.done
    pair[1].release("s")
    pair[0].release("l")
    assert len(waiting.expect("acquired")["leases"]) == 4
    pair[1].release("w", owner="b")
    assert_clean(pair[0].holds() + pair[1].holds(), at_least=10)
    for name in ("a", "b", "c", "d/leases", "d/locks"):
        observer.wait_queue(f"{path}/{name}", 0, timeout=2)


def test_s108_a_member_is_lost_while_waiting(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, worker, other = (member_of_two(start, surface, server.hosts, path) for _ in range(3))
    holder.hold(lock="b")
    waiting = worker.acquire("w", lock="both")
    (lost,) = observer.wait_queue(f"{path}/a", 1)
    (_, wish) = observer.wait_queue(f"{path}/b", 2)
    # Wait until the worker watches the node of its first member. It does so when it has held the node for a
    # while and another contender waits behind that node.
    (queued,) = [other.acquire("o", lock="a")]
    observer.wait_queue(f"{path}/a", 2)
    observer.client.get(f"{path}/a/{lost}")
    eventually(lambda: any(lost in line for line in server.four_letter("wchp").splitlines()), "it is watched")
    observer.delete(f"{path}/a/{lost}")
    queued.expect("acquired")
    # The worker's acquire started over. It left the queue of `b` and joined the end of the queue of `a`.
    observer.wait(f"{path}/b", lambda nodes: wish not in nodes, "wish taken back")
    observer.wait_queue(f"{path}/a", 2)
    assert not waiting.done
    other.release("o")
    observer.wait_queue(f"{path}/b", 2)
    holder.release()
    waiting.expect("acquired")
    worker.release("w")
    assert_clean([hold for one in (holder, worker, other) for hold in one.holds()], at_least=4)
    all_free(observer, path)


def test_s109_cancellation(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, worker = (member_of_two(start, surface, server.hosts, path) for _ in range(2))
    owner = worker.surface.cancellable_owner
    holder.hold(lock="b")
    waiting = worker.acquire("w", lock="both", owner=owner)
    observer.wait_queue(f"{path}/b", 2)
    worker.cancel(waiting)
    waiting.expect("cancelled")
    observer.wait_queue(f"{path}/b", 1, timeout=2)
    observer.wait_queue(f"{path}/a", 0, timeout=2)
    nothing_watched(server, worker, path)
    holder.release()
    worker.hold("again", lock="both", owner="b")
    worker.release("again", owner="b")
    all_free(observer, path)


def test_s280_two_names_for_one_ensemble(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    for name in "ab":
        observer.create(f"{path}/{name}")
    # One program names the server by its address, the other by its host name.
    numbered, named = server.hosts, f"localhost:{server.port}"
    workers = []
    for hosts in ((numbered, named), (named, numbered)):
        worker = start(surface)
        for name, host in zip("ab", hosts, strict=True):
            worker.connect(host, client=name)
            worker.lock(f"{path}/{name}", lock=name, client=name)
        worker.multi(["b", "a"], lock="both")
        workers.append(worker)
    for worker in workers:
        leases = worker.hold(lock="both")["leases"]
        assert [lease["node"].split("/")[-2] for lease in leases] == ["a", "b"]
        worker.release()
        all_free(observer, path)
    # Without a common order, each worker would hold one lock and wait for the other, until both time out.
    for turn in range(20):
        asked = [worker.acquire(f"t{turn}", lock="both", timeout=20) for worker in workers]
        eventually(lambda: any(pending.done for pending in asked), "one worker holds both")  # noqa: B023
        first = next(place for place, pending in enumerate(asked) if pending.done)
        for place in (first, 1 - first):
            asked[place].expect("acquired")
            workers[place].release(f"t{turn}")
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=2 * (2 + 40))
    all_free(observer, path)


@pytest.mark.parametrize(
    "kinds", [("mutex", "mutex"), ("write", "read"), ("read", "read"), ("semaphore",) * 2]
)
def test_s281_one_lock_by_two_names(
    surface: str, kinds: tuple[str, str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    parent, name = path.rsplit("/", 1)
    worker = start(surface)
    one, other = server.hosts, f"localhost:{server.port}{parent}"
    for lock, hosts, below, kind in (("one", one, path, kinds[0]), ("other", other, f"/{name}", kinds[1])):
        worker.connect(hosts, client=lock)
        permits = 2 if kind == "semaphore" else None
        worker.lock(below, lock=lock, client=lock, kind=kind, permits=permits)
    worker.lock(f"{path}-before", lock="before", client="one")
    # The addresses do not show that both clients use the same ensemble. The clients learn this from the
    # servers.
    worker.multi(["other", "before", "one"], lock="all")
    for ask in ({"cmd": "acquire"}, {"cmd": "acquire", "timeout": 20}, {"cmd": "try"}):
        error = worker.send(**ask, lock="all", lease="l", owner="a").error()
        assert error.code == "BAD_ARGUMENT"
        assert "locks" in error.message
        for hosts, below in ((one, path), (other, f"/{name}")):
            assert hosts in error.message
            assert below in error.message
        for queue in (path, f"{path}/leases", f"{path}/locks", f"{path}-before"):
            observer.wait_queue(queue, 0, timeout=2)
    # A common address shows it immediately.
    worker.connect(f"localhost:1,{server.hosts}", client="two")
    worker.lock(path, lock="two", client="two", kind=kinds[1], permits=permits)
    assert worker.send_multi(["one", "two"], lock="refused").error().code == "BAD_ARGUMENT"


def test_s282_one_path_on_two_ensembles(
    surface: str, server: Standalone, new_server: NewServer, observer: Observer, path: str, start: Start
) -> None:
    with new_server() as another, Observer(another.hosts) as elsewhere:
        workers = []
        for order in (("here", "there"), ("there", "here")):
            worker = start(surface)
            for lock, hosts in (("here", server.hosts), ("there", another.hosts)):
                worker.connect(hosts, client=lock)
                worker.lock(path, lock=lock, client=lock)
            worker.multi(order, lock="both")
            workers.append(worker)
        assert len(workers[0].hold(lock="both")["leases"]) == 2
        assert [len(side.queue(path)) for side in (observer, elsewhere)] == [1, 1]
        assert workers[1].try_acquire(lock="both")["event"] == "busy"
        waiting = workers[1].acquire("w", lock="both")
        eventually(
            lambda: 2 in [len(side.queue(path)) for side in (observer, elsewhere)], "the multi lock waits"
        )
        workers[0].release()
        waiting.expect("acquired")
        workers[1].release("w")
        for side in (observer, elsewhere):
            side.wait_queue(path, 0, timeout=2)
