"""Faults at the servers, which affect all clients. Each fault proves that it took effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from harness.nemesis.faults import is_stopped
from harness.nemesis.stage import Stage, fault
from harness.server import NotServing, Server

CONFINED = 0.5
"""Probability that the victim, at a server that is cut off, can reach no other server."""


@fault("leader killed", servers=True)
def leader_killed(stage: Stage) -> None:
    """The remaining servers elect a new leader."""
    leader = stage.ensemble.leader()
    with stage.holder(at=leader):
        stage.strike()
        leader.kill()
        stage.pass_time(0.5)
    stage.needs(stage.ensemble.leader() is not leader, "another server leads")
    stage.pass_until(1.5)
    leader.start()


@fault("follower cut from the leader, its clients connected", servers=True)
def follower_cut(stage: Stage) -> None:
    """The follower keeps replying to reads and pings for longer than a session lasts."""
    leader = stage.ensemble.leader()
    follower = stage.random.choice(stage.ensemble.others(leader))
    before = stage.links.withheld(leader.server_id, follower.server_id)

    def took_effect() -> None:
        after = stage.links.withheld(leader.server_id, follower.server_id)
        stage.needs(after > before, "the link to the leader was silent")

    _cut(stage, follower, took_effect)


@fault("leader cut from its followers, its clients connected", servers=True)
def leader_cut(stage: Stage) -> None:
    """The leader keeps leading without followers while the other servers elect a new one."""
    leader = stage.ensemble.leader()
    others = stage.ensemble.others(leader)

    def took_effect() -> None:
        stage.awaits(lambda: any(_leads(other) for other in others), "another server leads")

    _cut(stage, leader, took_effect)


def _cut(stage: Stage, server: Server, took_effect: Callable[[], None]) -> None:
    confined = stage.random.random() < CONFINED
    with stage.holder(at=server, confined=confined) as (victim, grant):
        stage.strike()
        stage.links.cut(server.server_id, *(other.server_id for other in stage.ensemble.others(server)))
        stage.pass_until(1.5)
        if confined:
            stage.awaits_loss(grant)
        took_effect()
    victim.connections.free()
    stage.pass_time(0.5)
    stage.links.heal()


def _serves(server: Server) -> bool:
    with contextlib.suppress(NotServing):
        return server.mode() != ""
    return False


def _leads(server: Server) -> bool:
    with contextlib.suppress(NotServing):
        return server.mode() == "leader"
    return False


@fault("no majority for longer than a session", servers=True)
def quorum_lost(stage: Stage) -> None:
    """Two of three servers are killed."""
    down = stage.random.sample(stage.ensemble.servers, 2)
    last = next(server for server in stage.ensemble.servers if server not in down)
    with stage.holder(at=last) as (_, grant):
        stage.strike()
        for server in down:
            server.kill()
        stage.awaits_loss(grant)
        stage.pass_until(1.5)
        stage.awaits(lambda: not _serves(last), "the last server serves no client")
    for server in down:
        server.launch()


@fault("rolling restart", servers=True)
def rolling_restart(stage: Stage) -> None:
    """One server after another restarts, including the leader."""
    before = stage.ensemble.leader().epoch()
    with stage.holder():
        stage.strike()
        for server in stage.ensemble.servers:
            server.stop()
            server.start()
            stage.ensemble.leader()
    stage.needs(stage.ensemble.leader().epoch() > before, "a new leader was elected")


@fault("follower stopped for longer than a session", servers=True)
def follower_stopped(stage: Stage) -> None:
    """The follower's clients move to another server or lose their leases."""
    follower = stage.random.choice(stage.ensemble.others(stage.ensemble.leader()))
    with stage.holder(at=follower) as (victim, grant):
        stage.strike()
        follower.pause()
        stage.pass_until(1.5)
        stage.needs(is_stopped(follower.pid), "the server is stopped")
        moved = victim.connections.server_id not in {None, follower.server_id}
        stage.needs(moved or grant.is_lost, f"{victim} moved elsewhere, or lost its lease")
    follower.resume()


@fault("leader stopped for a moment", servers=True)
def leader_stopped(stage: Stage) -> None:
    """The leader stops for less than a term's margin. This is the only assumption about a leader."""
    leader = stage.ensemble.leader()
    with stage.holder(at=leader):
        stage.strike()
        leader.pause()
        stage.pass_time(0.2)
        stage.needs(is_stopped(leader.pid), "the leader is stopped")
        leader.resume()
