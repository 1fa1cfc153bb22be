"""Tests of readers and writers that stop waiting, lose their session, or are killed."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.readwrite import clean, readwriter
from harness.server import Standalone
from harness.steps import Start, assert_took, assert_within, await_loss, nothing_watched, queue_up
from harness.worker import Pending, Worker

TIMEOUT = 0.5
SESSION = 2.0


def leaving(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> tuple[Worker, Worker, Worker]:
    """Return a holder, a leaver, and a reader.

    The leaver will queue behind the holder and then leave. The reader will queue behind the leaver.
    """
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
    """Assert that the leaver left no node and no watch.

    Also assert that the reader behind it is granted the lock in time.
    """
    observer.wait_queue(path, 2, timeout=2)
    nothing_watched(server, leaver, path)
    if half == "r":
        assert not behind.done
        holder.release()
        behind.expect("acquired")
    else:
        # The reader waited only for the writer that left.
        behind.expect("acquired")
        holder.check().expect("value")
        holder.release()
    behind.worker.release()
    leaver.hold("again", lock=half, owner="b")
    leaver.release("again", owner="b")
    clean(holder, leaver, behind.worker, at_least=3)
    observer.assert_free(path)


@pytest.mark.parametrize("half", ["r", "w"])
def test_s65_timeout_on_each_side(
    surface: str, half: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, leaver, last = leaving(surface, half, server, observer, path, start)
    pending = leaver.acquire(lock=half, timeout=TIMEOUT)
    observer.wait_queue(path, 2)
    (behind,) = queue_up(observer, path, [(last, "r")])
    line = pending.expect("timeout")
    assert_took(line, pending.sent, TIMEOUT)
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
    # Only one reader has lost its lock. The other reader still holds the read lock and blocks the writer.
    reader.check().expect("value")
    assert not writing.done
    # A lost read lock is not held, so acquiring the write lock is no upgrade, and the owner queues.
    again = unlucky.acquire("again", lock="w")
    observer.wait_queue(path, 3)
    reader.release()
    writing.expect("acquired")
    assert not again.done
    writer.release()
    assert int(again.expect("acquired")["session"]) != session
    unlucky.release("again")
    clean(unlucky, reader, writer, at_least=4)
    observer.assert_free(path)


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
    assert_within(waiting[0].line(), victim.killed, SESSION + 2)
    clean(victim, writer, reader, at_least=3)
    observer.assert_free(path)
