"""Tests of read/write locks that zklock shares with clients of other projects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, queue_up
from harness.worker import Worker

ROUNDS = [
    pytest.param(30, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
]


def in_turn(
    contenders: Sequence[tuple[str, str]], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """Put the contenders in the queue.

    Assert that adjacent readers are granted the lock together, and each writer alone.
    """
    # The parent is persistent, because kazoo creates it only once.
    observer.create(path)
    workers = [readwriter(start, name, server.hosts, path) for name, _ in contenders]
    halves = [half for _, half in contenders]
    # This writer holds first, so that all contenders queue.
    first = readwriter(start, contenders[0][0], server.hosts, path)
    first.hold(lock="w")
    waiting = queue_up(observer, path, list(zip(workers, halves, strict=True)))
    nodes = observer.queue(path)[1:]
    first.release()
    place = 0
    for key, run in groupby(range(len(halves)), key=lambda at: "r" if halves[at] == "r" else at):
        together = list(run)
        for at in together:
            assert waiting[at].expect("acquired")["node"].endswith(nodes[at])
        place += len(together)
        assert not any(later.done for later in waiting[place:]), (
            f"a contender behind {key} was granted the lock"
        )
        # Release the last of the adjacent readers first. If the next contender watched only this reader's
        # node, it would now be granted the lock too early.
        for at in reversed(together):
            assert not any(later.done for later in waiting[place:])
            workers[at].release()
    assert_clean([hold for worker in [first, *workers] for hold in worker.holds()], at_least=1 + len(workers))
    observer.assert_free(path)


def test_s73_curators_readers_and_writers(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ours, theirs = surface, "curator"
    contenders = [
        *((ours, "w"), (theirs, "r"), (ours, "r"), (theirs, "r")),
        *((theirs, "w"), (ours, "r"), (theirs, "r"), (ours, "w")),
        *((theirs, "w"), (ours, "r"), (theirs, "w"), (theirs, "r")),
    ]
    in_turn(contenders, server, observer, path, start)


def test_s74_kazoos_readers_and_writers(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ours, theirs = surface, "kazoo"
    contenders = [
        *((ours, "w"), (theirs, "r"), (ours, "r"), (theirs, "r")),
        *((theirs, "w"), (ours, "r"), (theirs, "r"), (ours, "w")),
        *((theirs, "w"), (ours, "r"), (theirs, "w"), (theirs, "r")),
    ]
    in_turn(contenders, server, observer, path, start)


def downgrade_while_others_wait(
    downgrader: Worker, others: Worker, rounds: int, observer: Observer, path: str
) -> None:
    """Let one worker downgrade its lock repeatedly, each time while a writer of another worker waits."""
    contending = [
        others.contend(path, kind="write", owners=2, rounds=3 * rounds, hold_ms=(1, 3)),
        others.contend(path, kind="read", owners=1, rounds=rounds, hold_ms=(0, 1)),
    ]
    watched = 0
    written = downgrader.acquire("w0", lock="w")
    for turn in range(rounds):
        written.expect("acquired")
        if not contending[0].done:
            observer.wait(path, lambda nodes: sum("__WRIT__" in node for node in nodes) > 1, "writer behind")
            watched += 1
        # Send the commands together, so that the downgrade and both releases follow each other immediately.
        read = downgrader.acquire(f"r{turn}", lock="r")
        released = [downgrader.send("release", lease=f"{half}{turn}", owner="a") for half in "wr"]
        if turn + 1 < rounds:
            written = downgrader.acquire(f"w{turn + 1}", lock="w")
        read.expect("acquired")
        for pending in released:
            pending.expect("released")
    assert watched >= 0.8 * rounds
    for pending in contending:
        pending.expect("done", 30 + rounds / 20)
    holds = downgrader.holds() + others.holds()
    assert_clean(holds, at_least=9 * rounds)
    observer.assert_free(path)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_s75_curator_downgrades(
    surface: str, rounds: int, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    ours, theirs = (readwriter(start, name, server.hosts, path) for name in (surface, "curator"))
    downgrade_while_others_wait(theirs, ours, rounds, observer, path)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_s76_we_downgrade(
    surface: str, rounds: int, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    ours, theirs = (readwriter(start, name, server.hosts, path) for name in (surface, "curator"))
    downgrade_while_others_wait(ours, theirs, rounds, observer, path)


@pytest.mark.parametrize("peer", ["curator", "kazoo"])
def test_s77_a_downgrade_keeps_peers_out(
    surface: str, peer: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    owner = readwriter(start, surface, server.hosts, path)
    reader, writer, late = (readwriter(start, peer, server.hosts, path) for _ in range(3))
    owner.hold("write", lock="w")
    reading, writing, last = queue_up(observer, path, [(reader, "r"), (writer, "w"), (late, "r")])
    owner.hold("read", lock="r")
    assert not any(pending.done for pending in (reading, writing, last))
    owner.release("write")
    reading.expect("acquired")
    reader.release()
    # The peer's waiting writer noticed the release of the write lock. It must now wait for the downgraded
    # reader.
    assert writer.try_acquire("x", lock="w", owner="b")["event"] == "busy"
    assert not writing.done
    owner.release("read")
    writing.expect("acquired")
    assert not last.done
    writer.release()
    last.expect("acquired")
    late.release()
    all_workers = (owner, reader, writer, late)
    assert_clean([hold for worker in all_workers for hold in worker.holds()], at_least=5)
    observer.assert_free(path)
