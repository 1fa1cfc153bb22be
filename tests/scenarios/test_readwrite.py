"""Readers together, writers alone, each in turn."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer, watched_by
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, await_loss, eventually, nothing_watched, queue_up, readwriter, seconds
from harness.worker import Pending, Worker

# What a session may send by itself while it holds: its heartbeat, and the watch on its own node.
UNASKED = {"multi", "getData", "exists", "addWatch"}
READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}
TIMEOUT = 0.5
SESSION = 2.0
READERS = 4


def clean(*workers: Worker, at_least: int, restarts: bool = False) -> None:
    """The histories of all workers together are flawless."""
    holds = [hold for worker in workers for hold in worker.holds()]
    assert_clean(holds, at_least=at_least, restarts=restarts)


def quiet(proxy: Proxy) -> None:
    """Wait until no request is in flight."""
    eventually(lambda: all(flight.closed for flight in proxy.snapshot().flights), "nothing is in flight")


def none_done(pending: list[Pending]) -> bool:
    """None of them has an answer yet."""
    return not any(one.done for one in pending)


def test_s56_readers_together(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    readers = [readwriter(start, surface, server.hosts, path) for _ in range(READERS)]
    for reader in readers:
        reader.hold(lock="r", owner="a")
        reader.hold("second", lock="r", owner="b")
    # All of them at once, each on a node of its own.
    assert len(observer.queue(path)) == 2 * READERS
    for reader in readers:
        reader.check().expect("value")
        reader.release(owner="a")
        reader.release("second", owner="b")
    clean(*readers, at_least=2 * READERS)
    assert observer.queue(path) == []


def test_s57_a_writer_alone(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    first, writer, reader = (readwriter(start, surface, server.hosts, path) for _ in range(3))
    first.hold("one", lock="r", owner="a")
    first.hold("two", lock="r", owner="b")
    (writing,) = queue_up(observer, path, [(writer, "w")])
    first.release("one", owner="a")
    # The last reader is still there.
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
    assert observer.queue(path) == []


def test_s58_a_late_reader_waits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    reader, writer, late = (readwriter(start, surface, server.hosts, path) for _ in range(3))
    reader.hold(lock="r")
    writing, reading = queue_up(observer, path, [(writer, "w"), (late, "r")])
    # Nor does one from the client that already reads.
    reader.acquire("x", lock="r", owner="b", timeout=TIMEOUT).expect("timeout")
    assert none_done([writing, reading])
    reader.release()
    writing.expect("acquired")
    assert not reading.done
    writer.release()
    reading.expect("acquired")
    late.release()
    clean(reader, writer, late, at_least=3)
    assert observer.queue(path) == []


def test_s59_whom_a_writers_release_wakes(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    first, second = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    readers = [readwriter(start, surface, server.hosts, path) for _ in range(2)]
    sleeper = readwriter(start, surface, proxy.hosts, path)
    first.hold(lock="w")
    *reading, writing, last = queue_up(
        observer, path, [(readers[0], "r"), (readers[1], "r"), (second, "w"), (sleeper, "r")]
    )
    nearest = f"{path}/{observer.queue(path)[3]}"
    eventually(
        lambda: nearest in watched_by(server, sleeper.sessions["c"], path),
        "the last reader watches the nearest writer before it",
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
    # Nothing has woken any contender behind the second writer so far.
    counts = proxy.snapshot()
    assert counts.events == []
    assert set(counts.requests) <= {"multi", "ping"}
    second.release()
    last.expect("acquired")
    assert len(proxy.snapshot().events) >= 1
    sleeper.release()
    clean(first, second, sleeper, *readers, at_least=5)
    assert observer.queue(path) == []


@pytest.mark.parametrize("first_released", ["inner", "outer"])
@pytest.mark.parametrize("half", ["r", "w"])
def test_s60_reentry_on_each_side(
    surface: str,
    half: str,
    first_released: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    worker = readwriter(start, surface, proxy.hosts, path)
    other = readwriter(start, surface, server.hosts, path)
    outer = worker.hold("outer", lock=half)
    # It is behind us, and must not hold up an owner that re-enters.
    (waiting,) = queue_up(observer, path, [(other, "w")])
    quiet(proxy)
    proxy.reset()
    inner = worker.hold("inner", lock=half)
    assert inner["node"] == outer["node"]
    assert inner["token"] == outer["token"]
    worker.release(first_released)
    assert set(proxy.snapshot().requests) <= UNASKED
    assert not waiting.done
    worker.release("outer" if first_released == "inner" else "inner")
    waiting.expect("acquired")
    other.release()
    clean(worker, other, at_least=2)
    assert observer.queue(path) == []


def test_s61_upgrade_refused(surface: str, proxy: Proxy, observer: Observer, path: str, start: Start) -> None:
    worker = readwriter(start, surface, proxy.hosts, path)
    worker.hold(lock="r")
    quiet(proxy)
    proxy.reset()
    for refused in (
        worker.acquire("x", lock="w"),
        worker.acquire("x", lock="w", timeout=5),
        worker.send("try", lock="w", lease="x", owner="a"),
    ):
        assert refused.error().code == "UPGRADE_REFUSED"
        assert (refused.error().t - refused.sent) / 1e9 <= 0.2
    assert set(proxy.snapshot().requests) <= UNASKED
    assert len(observer.queue(path)) == 1
    # Another owner does not upgrade. It waits.
    worker.acquire("x", lock="w", owner="b", timeout=TIMEOUT).expect("timeout")
    worker.check().expect("value")
    worker.release()
    worker.hold("again", lock="w")
    worker.release("again")
    clean(worker, at_least=2, restarts=True)
    assert observer.queue(path) == []


@pytest.mark.parametrize("first_released", ["write", "read"])
def test_s62_downgrade(
    surface: str, first_released: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    owner, reader, writer, late = (readwriter(start, surface, server.hosts, path) for _ in range(4))
    written = owner.hold("write", lock="w")
    reading, writing, last = queue_up(observer, path, [(reader, "r"), (writer, "w"), (late, "r")])
    read = owner.hold("read", lock="r")
    assert read["token"] == written["token"]
    assert read["node"] != written["node"]
    assert read["node"][-10:] == written["node"][-10:]
    assert reader.try_acquire("x", lock="r", owner="b")["event"] == "busy"
    assert none_done([reading, writing, last])
    owner.release(first_released)
    if first_released == "read":
        assert reader.try_acquire("x", lock="r", owner="b")["event"] == "busy"
        assert none_done([reading, writing, last])
        owner.release("write")
        reading.expect("acquired")
    else:
        # Others now read with us, and no one writes.
        reading.expect("acquired")
        owner.check("read").expect("value")
        assert len(observer.queue(path)) == 4
        assert none_done([writing, last])
        owner.release("read")
    assert none_done([writing, last])
    reader.release()
    writing.expect("acquired")
    writer.release()
    last.expect("acquired")
    late.release()
    clean(owner, reader, writer, late, at_least=5)
    assert observer.queue(path) == []


def test_s63_a_downgrade_is_its_owners(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = readwriter(start, surface, proxy.hosts, path)
    worker.hold("write", lock="w")
    # Another owner of the same client has no share in it.
    worker.acquire("x", lock="r", owner="b", timeout=TIMEOUT).expect("timeout")
    observer.wait_queue(path, 1)
    worker.hold("read", lock="r")
    other = worker.acquire("other", lock="r", owner="b")
    observer.wait_queue(path, 3)
    assert worker.try_acquire("x", lock="r", owner="c")["event"] == "busy"
    # With both halves in hand each is re-entered.
    quiet(proxy)
    proxy.reset()
    for half in ("w", "r"):
        worker.hold(f"inner-{half}", lock=half)
        worker.release(f"inner-{half}")
    assert set(proxy.snapshot().requests) <= UNASKED
    assert not other.done
    worker.release("write")
    other.expect("acquired")
    # What is left is a reader, which is refused the way back.
    assert worker.acquire("x", lock="w").error().code == "UPGRADE_REFUSED"
    worker.release("read")
    worker.release("other", owner="b")
    clean(worker, at_least=3)
    assert observer.queue(path) == []


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
    # No reader slips past a waiting writer.
    waiting = holder.acquire("waits", lock="w", owner="b")
    observer.wait_queue(path, 2)
    busy("r")
    holder.release()
    waiting.expect("acquired")
    holder.release("waits", owner="b")
    clean(holder, worker, at_least=6, restarts=True)
    assert observer.queue(path) == []


def leaving(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> tuple[Worker, Worker, Worker]:
    """A holder for which the leaver has to wait, the leaver, and a reader that will come behind it."""
    holder, leaver, last = (readwriter(start, surface, server.hosts, path) for _ in range(3))
    holder.hold(lock="w" if half == "r" else "r")
    return holder, leaver, last


def left(
    holder: Worker,
    leaver: Worker,
    behind: Pending,
    half: str,
    server: Standalone,
    observer: Observer,
    path: str,
) -> None:
    """Nothing of the leaver is left, and the reader behind it gets the lock when it should."""
    observer.wait_queue(path, 2, timeout=2)
    nothing_watched(server, leaver, path)
    if half == "r":
        assert not behind.done
        holder.release()
        behind.expect("acquired")
    else:
        # It waited only for the writer that left.
        behind.expect("acquired")
        holder.check().expect("value")
        holder.release()
    behind.worker.release()
    leaver.hold("again", lock=half, owner="b")
    leaver.release("again", owner="b")
    clean(holder, leaver, behind.worker, at_least=3, restarts=True)
    assert observer.queue(path) == []


@pytest.mark.parametrize("half", ["r", "w"])
def test_s65_timeout_on_each_side(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last = leaving(surface, half, server, observer, path, start)
    pending = leaver.acquire(lock=half, timeout=TIMEOUT)
    observer.wait_queue(path, 2)
    (behind,) = queue_up(observer, path, [(last, "r")])
    line = pending.expect("timeout")
    assert TIMEOUT <= seconds(line, pending.sent) <= TIMEOUT + 0.2
    left(holder, leaver, behind, half, server, observer, path)


@pytest.mark.parametrize("half", ["r", "w"])
def test_s66_cancellation_on_each_side(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last = leaving(surface, half, server, observer, path, start)
    owner = leaver.surface.cancellable_owner
    (pending,) = queue_up(observer, path, [(leaver, half)], owner=owner)
    (behind,) = queue_up(observer, path, [(last, "r")])
    leaver.cancel(pending)
    pending.expect("cancelled", 2)
    left(holder, leaver, behind, half, server, observer, path)


def test_s67_session_lost_while_reading(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    unlucky = readwriter(start, surface, proxy.hosts, path)
    reader, writer = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    unlucky.hold(lock="r")
    reader.hold(lock="r")
    (writing,) = queue_up(observer, path, [(writer, "w")])
    session = unlucky.sessions["c"]
    unlucky.presume_lost()
    observer.kill_session(session, proxy.passwords[session])
    await_loss(unlucky)
    # Only its own: the other reader still reads, and keeps the writer out.
    reader.check().expect("value")
    assert not writing.done
    # A lost read lock is not held: asking for the write lock is no upgrade, for the read lock no re-entry.
    again = unlucky.acquire("again", lock="w")
    observer.wait_queue(path, 3)
    reader.release()
    writing.expect("acquired")
    assert not again.done
    writer.release()
    assert int(again.expect("acquired")["session"]) != session
    unlucky.release("again")
    clean(unlucky, reader, writer, at_least=4)
    assert observer.queue(path) == []


def test_s68_session_lost_while_downgrading(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    unlucky = readwriter(start, surface, proxy.hosts, path)
    reader, writer = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    unlucky.hold("write", lock="w")
    reading, writing = queue_up(observer, path, [(reader, "r"), (writer, "w")])
    unlucky.hold("read", lock="r")
    session = unlucky.sessions["c"]
    for lease in ("write", "read"):
        unlucky.presume_lost(lease)
    observer.kill_session(session, proxy.passwords[session])
    reading.expect("acquired")
    for lease in ("write", "read"):
        await_loss(unlucky, lease)
    # With the lost writer's lease in hand, taking the read lock is no downgrade: it queues.
    again = unlucky.acquire("again", lock="r")
    observer.wait_queue(path, 3)
    reader.release()
    writing.expect("acquired")
    assert not again.done
    writer.release()
    again.expect("acquired")
    unlucky.release("again")
    clean(unlucky, reader, writer, at_least=5)
    assert observer.queue(path) == []


@pytest.mark.parametrize("half", ["r", "w"])
def test_s69_a_killed_reader_or_writer(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    victim = readwriter(start, surface, server.hosts, path, session_timeout=SESSION)
    writer, reader = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    victim.hold(lock=half)
    waiting = queue_up(observer, path, [(writer, "w"), (reader, "r")])
    victim.kill()
    assert victim.killed is not None
    for worker, pending in zip((writer, reader), waiting, strict=True):
        pending.expect("acquired")
        worker.release()
    assert seconds(waiting[0].line(), victim.killed) <= SESSION + 2
    clean(victim, writer, reader, at_least=3)
    assert observer.queue(path) == []


def test_s70_lost_reply_to_a_downgrade(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    owner = readwriter(start, surface, proxy.hosts, path)
    reader, writer = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    written = owner.hold("write", lock="w")
    reading, writing = queue_up(observer, path, [(reader, "r"), (writer, "w")])
    dropped = proxy.drop_reply("create2")
    asked = owner.acquire("read", lock="r")
    dropped.wait()
    read = asked.expect("acquired")
    assert read["token"] == written["token"]
    assert len(observer.queue(path)) == 4
    assert none_done([reading, writing])
    owner.release("write")
    reading.expect("acquired")
    assert not writing.done
    owner.release("read")
    reader.release()
    writing.expect("acquired")
    writer.release()
    clean(owner, reader, writer, at_least=4)
    assert observer.queue(path) == []


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
    assert observer.queue(path) == []


def test_s72_readers_and_writers_of_all_kinds(
    surface: str, chosen: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # The surface's own part in this: its worker writes while all others queue, and is killed.
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
    assert observer.queue(path) == []
