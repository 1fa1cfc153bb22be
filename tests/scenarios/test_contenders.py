"""Tests of `contenders()`, and of the queries that return whether a lock is taken."""

from __future__ import annotations

import time

import pytest

from harness.observer import Observer
from harness.permits import counting
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, assert_within, line_up, nothing_watched, queue_up, user
from harness.worker import Line, Worker

# Number of round trips for reading the contenders, by the number of contenders. The client reads a thousand
# nodes at a time.
MANY = {500: 3, 1100: 5}
READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}
LANGUAGES = {"rust": "rust", "python": "python", "aio": "python", "node": "node"}


def contenders(worker: Worker, lock: str = "m") -> list[Line]:
    """Return the contenders of a lock, as the worker lists them."""
    found: list[Line] = worker.call("contenders", lock=lock)["value"]
    return found


def locked(worker: Worker, lock: str = "m") -> bool:
    """Return whether the lock is taken, as the worker reports it."""
    value = worker.call("locked", lock=lock)["value"]
    assert isinstance(value, bool)
    return value


def test_s110_our_contenders(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    before = time.time() * 1000
    holder, waiter = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.lock(path, lock="labelled", label="the first")
    reported = holder.hold(lock="labelled")
    (waiting,) = line_up(observer, path, [waiter])
    found = contenders(waiter)
    assert [one["node"] for one in found] == [f"{path}/{node}" for node in observer.queue(path)]
    assert [one["position"] for one in found] == [0, 1]
    assert [one["label"] for one in found] == ["the first", None]
    assert [int(one["session"]) for one in found] == [worker.sessions["c"] for worker in (holder, waiter)]
    assert [one["pid"] for one in found] == [holder.pid, waiter.pid]
    assert [one["reader"] for one in found] == [False, False]
    assert found[0]["token"] == reported["token"]
    for one in found:
        assert one["language"] == LANGUAGES[surface]
        assert one["host"]
        assert before - 1000 <= one["since"] <= time.time() * 1000 + 1000
        assert observer.client.get(one["node"])[0] == one["data"].encode("latin-1")
    holder.release()
    waiting.expect("acquired")
    assert len(contenders(holder)) == 1
    waiter.release()
    assert contenders(holder) == []


def test_s111_readers_and_others(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    ours, curators, kazoos = (
        readwriter(start, name, server.hosts, path) for name in (surface, "curator", "kazoo")
    )
    pending = queue_up(observer, path, [(ours, "r"), (curators, "r"), (kazoos, "w")])
    observer.client.create(f"{path}/raw-", bytes(range(256)), ephemeral=True, sequence=True)
    observer.client.create(f"{path}/not a contender", b"", ephemeral=True)
    found = contenders(ours, "w")
    assert [one["node"] for one in found] == [f"{path}/{node}" for node in observer.queue(path)]
    assert [one["reader"] for one in found] == [True, True, False, False]
    assert [one["host"] is None for one in found] == [False, True, True, True]
    for one in found[1:]:
        assert {one[field] for field in ("pid", "language", "label", "since")} == {None}
        assert observer.client.get(one["node"])[0] == one["data"].encode("latin-1")
    for asked in pending[:2]:
        asked.expect("acquired")
    ours.release()
    curators.release()
    pending[2].expect("acquired")
    kazoos.release()


@pytest.mark.parametrize("many", MANY)
def test_s112_many_contenders(
    surface: str, many: int, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path)
    data = b'{"host":"h","pid":1,"language":"rust","label":null,"since":1}'
    made = [
        observer.client.create_async(f"{path}/_c_{number:08}-lock-", data, ephemeral=True, sequence=True)
        for number in range(many)
    ]
    nodes = [one.get(timeout=30) for one in made]
    proxy.delay = 0.02
    contenders(worker)
    proxy.reset()
    found = contenders(worker)
    flights = [flight for flight in proxy.snapshot().flights if set(flight.requests) - {"ping"}]
    assert len(flights) <= MANY[many], flights
    assert [one["node"] for one in found] == nodes
    assert [one["position"] for one in found] == list(range(many))
    assert {one["host"] for one in found} == {"h"}
    for node in nodes:
        observer.client.delete_async(node)
    observer.wait_queue(path, 0)


def test_s290_the_token_of_a_downgraded_lease(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = readwriter(start, surface, server.hosts, path)
    written = worker.hold("write", lock="w")
    read = worker.hold("read", lock="r")
    found = {one["reader"]: one for one in contenders(worker, "r")}
    assert read["token"] == written["token"] == found[False]["token"]
    assert int(found[True]["token"]) > int(read["token"])
    worker.release("write")
    (alone,) = contenders(worker, "r")
    assert alone == {**found[True], "position": 0}
    worker.release("read")


def test_s113_locked(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, worker = user(start, surface, server.hosts, path), user(start, surface, proxy.hosts, path)
    # The path does not exist, and the query does not create it.
    assert not locked(worker)
    assert contenders(worker) == []
    assert not observer.exists(path)
    holder.hold()
    proxy.reset()
    assert locked(worker)
    requests = proxy.snapshot().requests
    assert requests.total() == 1
    assert set(requests) <= READS
    assert locked(holder)
    holder.release()
    assert not locked(worker)
    nothing_watched(server, worker, path)


def test_s114_contenders_of_a_semaphore(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, waiter = (counting(start, surface, server.hosts, path, 3) for _ in range(2))
    worker = counting(start, surface, proxy.hosts, path, 3)
    holder.hold("l", count=2)
    assert not locked(worker)
    holder.hold("m")
    assert locked(worker)
    waiting = waiter.acquire("w")
    observer.wait_queue(f"{path}/leases", 4)
    late = waiter.acquire("late", owner="b")
    observer.wait_queue(f"{path}/locks", 2)
    proxy.reset()
    assert locked(worker)
    assert proxy.snapshot().requests.total() == 1
    proxy.delay = 0.02
    proxy.reset()
    found = contenders(worker)
    flights = [flight for flight in proxy.snapshot().flights if set(flight.requests) - {"ping"}]
    assert len(flights) <= 3, flights
    parts = (f"{path}/leases", f"{path}/locks")
    nodes = [f"{part}/{node}" for part in parts for node in observer.queue(part)]
    assert [one["node"] for one in found] == nodes
    assert [one["position"] for one in found] == list(range(6))
    assert [one["pid"] for one in found] == [holder.pid] * 3 + [waiter.pid] * 3
    assert all('"permits":3' in one["data"] for one in found)
    holder.release("l")
    waiting.expect("acquired")
    late.expect("acquired")
    waiter.release("w")
    waiter.release("late", owner="b")
    holder.release("m")


@pytest.mark.parametrize("how", ["refused", "silent"])
@pytest.mark.parametrize("question", ["locked", "contenders"])
def test_s115_contenders_and_locked_without_a_server(
    surface: str, question: str, how: str, proxy: Proxy, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, connect_timeout=1.0)
    worker.lock(path)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    asked = worker.send(question, lock="m")
    error = asked.error()
    assert error.code == "CONNECTION_FAILED"
    assert_within(error, asked.sent, 1.0)
    worker.call("close", client="c")
    assert worker.send(question, lock="m").error().code == "CLIENT_CLOSED"
