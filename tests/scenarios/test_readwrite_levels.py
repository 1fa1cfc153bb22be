"""Tests of one owner's nested acquires of a read/write lock: re-entry, refused upgrade, and downgrade."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.readwrite import clean, none_done, quiet, readwriter
from harness.server import Standalone
from harness.steps import Start, assert_within, await_loss, queue_up

# Requests that can be sent at any time: heartbeats, and the watch on the holder's node.
UNASKED = {"multi", "getData", "exists", "addWatch"}
TIMEOUT = 0.5


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
    # A writer waits behind the holder. It must not block the holder's re-entry.
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
    observer.assert_free(path)


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
        assert_within(refused.error(), refused.sent, 0)
    assert set(proxy.snapshot().requests) <= UNASKED
    assert len(observer.queue(path)) == 1
    # A writer with another owner is no upgrade: it waits.
    worker.acquire("x", lock="w", owner="b", timeout=TIMEOUT).expect("timeout")
    worker.check().expect("value")
    worker.release()
    worker.hold("again", lock="w")
    worker.release("again")
    clean(worker, at_least=2)
    observer.assert_free(path)


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
        # The owner is now only a reader, so other readers hold the lock together with it, and no writer does.
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
    observer.assert_free(path)


def test_s63_a_downgrade_is_its_owners(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = readwriter(start, surface, proxy.hosts, path)
    worker.hold("write", lock="w")
    # Another owner of the same client does not hold the lock.
    worker.acquire("x", lock="r", owner="b", timeout=TIMEOUT).expect("timeout")
    observer.wait_queue(path, 1)
    worker.hold("read", lock="r")
    other = worker.acquire("other", lock="r", owner="b")
    observer.wait_queue(path, 3)
    assert worker.try_acquire("x", lock="r", owner="c")["event"] == "busy"
    # The owner holds both halves, so it re-enters each of them.
    quiet(proxy)
    proxy.reset()
    for half in ("w", "r"):
        worker.hold(f"inner-{half}", lock=half)
        worker.release(f"inner-{half}")
    assert set(proxy.snapshot().requests) <= UNASKED
    assert not other.done
    worker.release("write")
    other.expect("acquired")
    # The owner is now only a reader, so its request for the write lock is refused as an upgrade.
    assert worker.acquire("x", lock="w").error().code == "UPGRADE_REFUSED"
    worker.release("read")
    worker.release("other", owner="b")
    clean(worker, at_least=3)
    observer.assert_free(path)


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
    # The write lock is lost, so acquiring the read lock is no downgrade, and the owner queues.
    again = unlucky.acquire("again", lock="r")
    observer.wait_queue(path, 3)
    reader.release()
    writing.expect("acquired")
    assert not again.done
    writer.release()
    again.expect("acquired")
    unlucky.release("again")
    clean(unlucky, reader, writer, at_least=5)
    observer.assert_free(path)


def test_s70_lost_reply_to_a_downgrade(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    # The session timeout is long, so that the client sends no heartbeat meanwhile. A heartbeat is also a
    # transaction.
    owner = readwriter(start, surface, proxy.hosts, path, session_timeout=60)
    reader, writer = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    written = owner.hold("write", lock="w")
    reading, writing = queue_up(observer, path, [(reader, "r"), (writer, "w")])
    dropped = proxy.drop_reply("multi")
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
    observer.assert_free(path)


def test_s285_a_downgrade_and_an_operator(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    owner = readwriter(start, surface, proxy.hosts, path)
    writer = readwriter(start, surface, server.hosts, path)
    written = owner.hold("write", lock="w")
    # The black hole prevents the owner from watching its node, so it does not notice that an operator deletes
    # it.
    proxy.black_hole("up")
    reading = owner.acquire("read", lock="r")
    observer.delete(written["node"])
    owner.presume_lost("write")
    writer.hold(lock="w")
    proxy.heal()
    # The writer's node is gone, so a downgrade is impossible. The owner queues as a reader behind the new
    # holder.
    await_loss(owner, "write")
    observer.wait_queue(path, 2)
    assert not reading.done
    writer.release()
    assert "__READ__" in reading.expect("acquired")["node"]
    for lease in ("read", "write"):
        owner.release(lease)
    clean(owner, writer, at_least=3)
    observer.assert_free(path)


def test_s286_a_downgrade_without_the_right_to_read(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    owner = start(surface)
    owner.connect(server.hosts, acl="world:anyone:cdwa")
    for lock, kind in (("r", "read"), ("w", "write")):
        owner.lock(path, lock=lock, kind=kind)
    writer = readwriter(start, surface, server.hosts, path)
    written = owner.hold("write", lock="w")
    # The downgrade still works. The client has no right to read the node, so the server refuses to check it.
    read = owner.hold("read", lock="r")
    assert read["token"] == written["token"]
    assert read["node"][-10:] == written["node"][-10:]
    owner.release("write")
    observer.wait_gone(written["node"])
    # A try only lists the queue, so it works here. A waiter would need the right to watch the node.
    assert writer.try_acquire("t", lock="w")["event"] == "busy"
    owner.release("read")
    writer.hold("w", lock="w")
    writer.release("w")
    clean(owner, writer, at_least=3)
    observer.assert_free(path)
