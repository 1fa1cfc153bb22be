"""zklock and other client libraries share one queue."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, assert_within, line_up, queue_up, user

SESSION = 2.0


def alternate(
    surface: str, peer: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """In a queue of alternating zklock and peer contenders, each contender blocks the next one."""
    # The parent is persistent, because kazoo creates it only once.
    observer.create(path)
    names = [surface, peer, surface, surface, peer, peer, surface]
    workers = [user(start, name, server.hosts, path) for name in names]
    waiting = line_up(observer, path, workers)
    nodes = observer.queue(path)
    for place, (worker, pending) in enumerate(zip(workers, waiting, strict=True)):
        line = pending.expect("acquired")
        assert line["node"].endswith(nodes[place])
        assert not any(later.done for later in waiting[place + 1 :])
        worker.release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=len(names))
    observer.assert_free(path)


def crash(
    holder_name: str, waiter_name: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """If the holder is killed, the waiter gets the lock when the holder's session expires."""
    observer.create(path)
    holder = user(start, holder_name, server.hosts, path, session_timeout=SESSION)
    waiter = user(start, waiter_name, server.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [waiter])
    holder.kill()
    assert holder.killed is not None
    assert_within(waiting.expect("acquired"), holder.killed, SESSION + 2)
    waiter.release()
    assert_clean(holder.holds() + waiter.holds(), at_least=2)
    observer.assert_free(path)


def test_s23_curator_holds(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    alternate(surface, "curator", server, observer, path, start)


def test_s24_kazoo_holds(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    alternate(surface, "kazoo", server, observer, path, start)


@pytest.mark.parametrize("killed", ["ours", "theirs"])
def test_s25_curator_and_a_crash(
    surface: str, killed: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    names = (surface, "curator") if killed == "ours" else ("curator", surface)
    crash(*names, server, observer, path, start)


@pytest.mark.parametrize("killed", ["ours", "theirs"])
def test_s26_kazoo_and_a_crash(
    surface: str, killed: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    names = (surface, "kazoo") if killed == "ours" else ("kazoo", surface)
    crash(*names, server, observer, path, start)


def test_s165_go_holds(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    alternate(surface, "go", server, observer, path, start)


@pytest.mark.parametrize("killed", ["ours", "theirs"])
def test_s166_go_and_a_crash(
    surface: str, killed: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    names = (surface, "go") if killed == "ours" else ("go", surface)
    crash(*names, server, observer, path, start)


def test_s167_go_and_our_readers(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """Go's lock treats every node as exclusive. It waits for our readers, and our readers wait for it."""
    observer.create(path)
    reader, late = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    go = user(start, "go", server.hosts, path)
    reader.hold("first", lock="r")
    waiting, behind = queue_up(observer, path, [(go, "m"), (late, "r")])
    assert not waiting.done
    reader.release("first")
    waiting.expect("acquired")
    assert not behind.done
    go.release()
    behind.expect("acquired")
    late.release()
    assert_clean([hold for worker in (reader, go, late) for hold in worker.holds()], at_least=3)
    observer.assert_free(path)


def test_s174_below_a_chroot(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    ours = user(start, surface, f"{server.hosts}{path}", "/lock")
    theirs = user(start, "curator", server.hosts, f"{path}/lock")
    ours.hold()
    (waiting,) = line_up(observer, f"{path}/lock", [theirs])
    assert not waiting.done
    ours.release()
    waiting.expect("acquired")
    assert ours.try_acquire("again")["event"] == "busy"
    theirs.release()
    assert ours.try_acquire("again")["event"] == "acquired"
    ours.release("again")
    observer.assert_free(f"{path}/lock")
