"""zklock next to kazoo's elections and locks on one path: campaigns are refused, and locks work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from conftest import Run
from harness.observer import Observer
from kazoo.client import KazooClient
from kazoo.recipe.election import Election as KazooElection

import zklock
from zklock import aio
from zklock.compat.kazoo import Lock

SOON = 10.0


@pytest.fixture
def kazoo(hosts: str) -> Iterator[KazooClient]:
    """Provide a real kazoo client."""
    theirs = KazooClient(hosts=hosts)
    theirs.start()
    yield theirs
    theirs.stop()
    theirs.close()


@contextmanager
def leading(election: KazooElection) -> Iterator[Callable[[], bool]]:
    """Run the block while a thread campaigns through kazoo. Yield a function that tells whether it leads."""
    leads, done = threading.Event(), threading.Event()

    def lead() -> None:
        leads.set()
        done.wait(SOON)

    thread = threading.Thread(target=election.run, args=(lead,))
    thread.start()
    try:
        yield lambda: leads.wait(SOON)
    finally:
        done.set()
        election.cancel()
        thread.join(SOON)


def test_kazoo_s_election_does_not_see_a_leader_of_ours(
    client: zklock.Client, kazoo: KazooClient, path: str
) -> None:
    """The reason for the refusal: kazoo itself decides which nodes it sees."""
    with (
        zklock.Election(client, path, id="ours").lead() as leadership,
        leading(kazoo.Election(path, "theirs")) as leads,
    ):
        assert leads()
        leadership.check()


@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_a_campaign_next_to_kazoo_s_election_is_refused(
    client: zklock.Client, kazoo: KazooClient, observer: Observer, path: str, timeout: float | None
) -> None:
    with leading(kazoo.Election(path, "theirs")) as leads:
        assert leads()
        with pytest.raises(zklock.BadArgument, match=r"^path: .*kazoo") as caught:
            zklock.Election(client, path).campaign(timeout)
        message = str(caught.value)
        assert repr(path).strip("'") in message
        assert "would lead at the same time" in message
        assert "zklock.compat.kazoo.Lock" in message
        observer.wait_queue(path, 1)


def test_a_campaign_of_a_task_is_refused_too(run: Run, kazoo: KazooClient, path: str) -> None:
    async def body(client: aio.Client) -> None:
        with pytest.raises(zklock.BadArgument, match="kazoo"):
            async with aio.Election(client, path).lead():
                pass

    with leading(kazoo.Election(path, "theirs")) as leads:
        assert leads()
        run(body)


def test_locks_next_to_kazoo_s_locks_are_not_refused(
    client: zklock.Client, kazoo: KazooClient, observer: Observer, path: str
) -> None:
    """Locks of zklock and kazoo on one path exclude each other, with kazoo's or Curator's node names."""
    for naming, patterns in (("kazoo", None), ("curator", ["-lock-"])):
        theirs = kazoo.Lock(path, "theirs", extra_lock_patterns=patterns or ())
        theirs.acquire()
        ours = zklock.Mutex(client, path, naming=naming)  # type: ignore[arg-type]
        assert ours.acquire(timeout=0) is False
        theirs.release()
        with ours.hold(timeout=SOON):
            assert not kazoo.Lock(path, "again", extra_lock_patterns=patterns or ()).acquire(blocking=False)
        observer.assert_free(path)


def test_a_lock_with_kazoo_s_interface_and_kazoo_s_election_exclude_each_other(
    client: zklock.Client, kazoo: KazooClient, observer: Observer, path: str
) -> None:
    """The lock and kazoo's election exclude each other, in either order."""
    election, ours = kazoo.Election(path, "theirs"), Lock(client, path, "ours")
    with ours, leading(election) as leads:
        observer.wait_queue(path, 2)
        assert election.contenders()[1] == "theirs"
        assert ours.contenders() == ["ours", "theirs"]
        ours.release()
        assert leads()
        assert not ours.acquire(blocking=False)
    with ours:
        assert ours.lease is not None
        ours.lease.check()
