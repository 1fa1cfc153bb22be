"""`Election`: leaders, candidates, and observers."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import scripts
from conftest import Run
from harness.observer import Observer, watched_by
from harness.server import Standalone
from harness.steps import eventually
from tasks import queued

import zklock
from zklock import aio

SOON = 10.0


def test_one_leads_and_the_others_wait_in_order(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    first, second = zklock.Election(client, path, id="ä"), zklock.Election(other, path, id="")
    assert (first.leader(), first.candidates(), first.is_leader) == (None, [], False)
    with ThreadPoolExecutor(1) as pool, first.lead(timeout=5) as leadership:
        assert isinstance(leadership, zklock.Lease)
        next_one = pool.submit(second.campaign, SOON)
        observer.wait_queue(path, 2)
        assert [(each.position, each.id) for each in second.candidates()] == [(0, "ä"), (1, "")]
        leader = second.leader()
        assert leader is not None
        assert (leader.node, leader.fencing_token) == (leadership.node, leadership.fencing_token)
        assert second.candidates()[0] == leader
        assert (first.is_leader, second.is_leader) == (True, False)
        with pytest.raises(zklock.LockTimeout):
            zklock.Election(other, path).campaign(timeout=0)
        leadership.resign()
        assert not first.is_leader
        successor = next_one.result(SOON)
        assert second.is_leader
        assert successor.fencing_token > leadership.fencing_token
    successor.resign(wait=False)
    with pytest.raises(zklock.NotHeld):
        successor.resign()


def test_the_nodes_are_those_of_a_leader_latch(client: zklock.Client, observer: Observer, path: str) -> None:
    with zklock.Election(client, path, id="me").lead() as leadership:
        assert "-latch-" in leadership.node
        assert observer.client.get(leadership.node)[0] == b"me"


def test_a_candidate_is_not_asked_to_give_up(client: zklock.Client, observer: Observer, path: str) -> None:
    leadership = zklock.Election(client, path, id="me").campaign()
    with pytest.raises(zklock.BadArgument, match="is a candidate in an election"):
        client.revoke(leadership.node)
    assert observer.client.get(leadership.node)[0] == b"me"
    client.break_lock(leadership.node)
    assert leadership.wait_lost(SOON)


def test_an_election_object_is_one_candidate(client: zklock.Client, observer: Observer, path: str) -> None:
    election = zklock.Election(client, path)
    with election.lead() as outer, ThreadPoolExecutor(1) as pool:
        inner = pool.submit(election.campaign, SOON).result(SOON)
        assert inner.node == outer.node
        outer.resign()
        assert election.is_leader
        inner.resign()
        assert not election.is_leader
    observer.assert_free(path)


def test_the_default_id_names_the_process(hosts: str, path: str) -> None:
    with zklock.Client(hosts) as client, zklock.Client(hosts, identify=False) as anonymous:
        assert zklock.Election(client, path).id == f"{os.uname().nodename}:{os.getpid()}"
        assert zklock.Election(anonymous, path).id == ""
        assert zklock.Election(anonymous, path, id="x").id == "x"
        with pytest.raises(zklock.BadArgument, match="id: is 1025 bytes long"):
            zklock.Election(client, path, id="x" * 1025)
        with pytest.raises(zklock.BadArgument, match="path"):
            zklock.Election(client, "relative")


def test_ids_are_shown_escaped(client: zklock.Client, path: str) -> None:
    election = zklock.Election(client, path, id="\x1b[31m")
    with election.lead() as leadership:
        assert repr(leadership).startswith("<zklock.Leadership /")
        for shown in (repr(election), repr(election.candidates())):
            assert "\\u{1b}[31m" in shown
            assert "\x1b" not in shown


def test_a_lost_leadership_ends(client: zklock.Client, observer: Observer, path: str) -> None:
    election = zklock.Election(client, path)
    lost = threading.Event()

    def lead_and_lose() -> None:
        with election.lead() as leadership:
            leadership.on_lost(lambda _: lost.set())
            observer.delete(leadership.node)
            assert lost.wait(SOON)
            assert not election.is_leader

    with pytest.raises(zklock.LockLost):
        lead_and_lose()
    # It can be elected again.
    with election.lead(timeout=SOON):
        assert election.is_leader


def test_a_watcher_receives_each_leader(
    client: zklock.Client, other: zklock.Client, server: Standalone, path: str
) -> None:
    received: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    watcher = zklock.Election(other, path)
    notice = watcher.on_leader(lambda leader: received.put(leader and leader.id))
    assert received.get(timeout=SOON) is None
    for name in ("one", "two"):
        with zklock.Election(client, path, id=name).lead() as leadership:
            assert received.get(timeout=SOON) == name
            # The client watches only the leader's node, and sets no watch on the directory's own data.
            assert watched_by(server, other.session_id, path) == {leadership.node}
        assert received.get(timeout=SOON) is None
        # The remaining watch is on the directory's children. The server does not list such watches.
        assert watched_by(server, other.session_id, path) == set()
    with zklock.Election(client, path).lead() as leadership:
        eventually(lambda: watched_by(server, other.session_id, path) == {leadership.node}, "it is watched")
        notice.cancel()
        eventually(lambda: watched_by(server, other.session_id, path) == set(), "the watch is dropped")


def test_a_watcher_sees_a_leader_change_its_id(client: zklock.Client, observer: Observer, path: str) -> None:
    received: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    election = zklock.Election(client, path, id="one")
    with election.lead() as leadership:
        notice = election.on_leader(lambda leader: received.put(leader and leader.id))
        assert received.get(timeout=SOON) == "one"
        observer.client.set(leadership.node, b"two")
        assert received.get(timeout=SOON) == "two"
        notice.cancel()


def test_watching_ends_with_the_client(hosts: str, path: str) -> None:
    received: queue.SimpleQueue[object] = queue.SimpleQueue()
    with zklock.Client(hosts) as client:
        notice = zklock.Election(client, path).on_leader(received.put)
        assert received.get(timeout=SOON) is None
    with pytest.raises(queue.Empty):
        received.get(timeout=0.3)
    notice.cancel()


FORKED = """
election = zklock.Election(hosts, path)
leadership = election.campaign()
read, write = os.pipe()
if os.fork() == 0:
    own_id = f"{os.uname().nodename}:{os.getpid()}"
    os.write(write, repr((election.is_leader, election.id == own_id)).encode())
    os._exit(0)
os.wait()
print(os.read(read, 100).decode(), election.is_leader)
"""


def test_a_forked_child_does_not_lead(hosts: str, path: str) -> None:
    result = scripts.run(FORKED, hosts, path)
    assert result.stdout.split("\n")[0] == "(False, True) True", result


def test_a_cancelled_campaign_withdraws(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        async with aio.Election(client, path).lead():
            waiting = asyncio.create_task(aio.Election(client, path).campaign())
            await queued(observer, path, 2)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await queued(observer, path, 1)

    run(body)


def test_a_loss_cancels_the_body(run: Run, observer: Observer, path: str) -> None:
    async def body(client: aio.Client) -> None:
        election = aio.Election(client, path)

        async def lead() -> None:
            async with election.lead(timeout=SOON) as leadership:
                assert isinstance(leadership, aio.Lease)
                observer.delete(leadership.node)
                await asyncio.Event().wait()

        with pytest.raises(zklock.LockLost):
            await lead()
        assert not election.is_leader

    run(body)


def test_observing_is_a_loop(run: Run, server: Standalone, path: str) -> None:
    async def body(client: aio.Client) -> None:
        election, seen = aio.Election(client, path, id="me"), []
        leadership = None
        async with asyncio.timeout(SOON):
            async for leader in election.observe():
                seen.append(leader and leader.id)
                if leader is None and leadership is None:
                    leadership = await election.campaign()
                elif leader is not None:
                    assert leadership is not None
                    await leadership.resign()
                else:
                    break
        assert seen == [None, "me", None]
        # If it is abandoned while it waits, nothing is left behind.
        leaders = election.observe()
        assert await anext(leaders) is None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(leaders), 0.1)

    run(body)
