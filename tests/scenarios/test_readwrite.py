"""Readers hold the lock together, a writer holds it alone, and grants follow the order of the queue."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer, watched_by
from harness.proxy import Proxy
from harness.readwrite import clean, none_done, quiet, readwriter
from harness.server import Standalone
from harness.steps import Start, eventually, nothing_watched, queue_up

READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}
TIMEOUT = 0.5
SESSION = 2.0
READERS = 4


def test_s56_readers_together(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    readers = [readwriter(start, surface, server.hosts, path) for _ in range(READERS)]
    for reader in readers:
        reader.hold(lock="r", owner="a")
        reader.hold("second", lock="r", owner="b")
    # All readers hold at the same time, each with its own node.
    assert len(observer.queue(path)) == 2 * READERS
    for reader in readers:
        reader.check().expect("value")
        reader.release(owner="a")
        reader.release("second", owner="b")
    clean(*readers, at_least=2 * READERS)
    observer.assert_free(path)


def test_s57_a_writer_alone(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    first, writer, reader = (readwriter(start, surface, server.hosts, path) for _ in range(3))
    first.hold("one", lock="r", owner="a")
    first.hold("two", lock="r", owner="b")
    (writing,) = queue_up(observer, path, [(writer, "w")])
    first.release("one", owner="a")
    # The last reader still holds the lock.
    assert writer.try_acquire("x", lock="w", owner="b")["event"] == "busy"
    assert not writing.done
    first.release("two", owner="b")
    writing.expect("acquired")
    behind = queue_up(observer, path, [(reader, "r"), (first, "w")])
    assert reader.try_acquire("x", lock="r", owner="b")["event"] == "busy"
    assert none_done(behind)
    writer.release()
    behind[0].expect("acquired")
    assert not behind[1].done
    reader.release()
    behind[1].expect("acquired")
    first.release()
    clean(first, writer, reader, at_least=5)
    observer.assert_free(path)


def test_s58_a_late_reader_waits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    reader, writer, late = (readwriter(start, surface, server.hosts, path) for _ in range(3))
    reader.hold(lock="r")
    writing, reading = queue_up(observer, path, [(writer, "w"), (late, "r")])
    # A second reader on the client of the first reader does not overtake the waiting writer either.
    reader.acquire("x", lock="r", owner="b", timeout=TIMEOUT).expect("timeout")
    assert none_done([writing, reading])
    reader.release()
    writing.expect("acquired")
    assert not reading.done
    writer.release()
    reading.expect("acquired")
    late.release()
    clean(reader, writer, late, at_least=3)
    observer.assert_free(path)


def test_s59_contenders_that_a_writers_release_wakes(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    first, second = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    readers = [readwriter(start, surface, server.hosts, path) for _ in range(2)]
    sleeper = readwriter(start, surface, proxy.hosts, path)
    first.hold(lock="w")
    *reading, writing, last = queue_up(
        observer, path, [(readers[0], "r"), (readers[1], "r"), (second, "w"), (sleeper, "r")]
    )
    # The last reader watches the writer's node and then its own. Both watches must be set before the test
    # counts requests.
    watched = {f"{path}/{node}" for node in observer.queue(path)[3:]}
    eventually(
        lambda: watched <= watched_by(server, sleeper.sessions["c"], path),
        "the last reader watches the nearest writer before it, and its own node",
    )
    quiet(proxy)
    proxy.reset()
    first.release()
    for pending in reading:
        pending.expect("acquired")
    assert none_done([writing, last])
    for reader in readers:
        reader.release()
    writing.expect("acquired")
    # No contender behind the second writer has been woken so far.
    counts = proxy.snapshot()
    assert counts.events == []
    assert set(counts.requests) <= {"multi", "ping"}
    second.release()
    last.expect("acquired")
    assert len(proxy.snapshot().events) >= 1
    sleeper.release()
    clean(first, second, sleeper, *readers, at_least=5)
    observer.assert_free(path)


def test_s64_try_on_each_side(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = readwriter(start, surface, server.hosts, path)
    worker = readwriter(start, surface, proxy.hosts, path)
    for half in ("r", "w"):
        assert worker.try_acquire(lock=half)["event"] == "acquired"
        assert len(observer.queue(path)) == 1
        worker.release()

    def busy(half: str) -> None:
        queue = observer.queue(path)
        proxy.reset()
        assert worker.try_acquire("x", lock=half)["event"] == "busy"
        requests = proxy.snapshot().requests
        assert sum(requests.values()) == 1
        assert set(requests) <= READS
        nothing_watched(server, worker, path)
        assert observer.queue(path) == queue

    holder.hold(lock="w")
    busy("r")
    busy("w")
    holder.release()
    holder.hold(lock="r")
    busy("w")
    assert worker.try_acquire(lock="r")["event"] == "acquired"
    worker.release()
    # No reader overtakes a waiting writer.
    waiting = holder.acquire("waits", lock="w", owner="b")
    observer.wait_queue(path, 2)
    busy("r")
    holder.release()
    waiting.expect("acquired")
    holder.release("waits", owner="b")
    clean(holder, worker, at_least=6)
    observer.assert_free(path)


def test_s71_writers_among_constant_readers(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    workers = [start(surface) for _ in range(3)]
    for worker in workers:
        worker.connect(server.hosts)
    reading = [
        worker.contend(path, kind="read", owners=3, rounds=30, hold_ms=(5, 10)) for worker in workers[:2]
    ]
    observer.wait(path, lambda nodes: len(nodes) >= 4, "readers")
    writing = workers[2].contend(path, kind="write", owners=2, rounds=5, hold_ms=(1, 5))
    for pending in (writing, *reading):
        pending.expect("done", 40)
    holds = [hold for worker in workers for hold in worker.holds()]
    assert_clean(holds, at_least=2 * 3 * 30 + 2 * 5)
    together = [hold for hold in holds if any(hold.granted < other.granted < hold.until for other in holds)]
    assert len(together) >= 30, "readers hold together"
    observer.assert_free(path)


def test_s72_readers_and_writers_of_all_kinds(
    surface: str, chosen: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    victim = readwriter(start, surface, server.hosts, path, session_timeout=SESSION)
    victim.hold(lock="w")
    workers = [start(name) for name in [*chosen, "curator"]]
    for worker in workers:
        worker.connect(server.hosts)
    asked = [
        worker.contend(path, kind=kind, owners=owners, rounds=4, hold_ms=(0, 5))
        for worker in workers
        for kind, owners in (("read", 2), ("write", 1))
    ]
    observer.wait_queue(path, 1 + 3 * len(workers))
    victim.kill()
    for pending in asked:
        pending.expect("done", 30)
    clean(victim, *workers, at_least=1 + 12 * len(workers))
    observer.assert_free(path)
