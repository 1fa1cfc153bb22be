"""Faults at the servers, which affect all clients. Each fault proves that it took effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from harness.nemesis.context import FaultContext, fault
from harness.nemesis.faults import is_stopped
from harness.server import NotServing, Server

CONFINED = 0.5
"""Probability that the station connected to the cut-off server can reach no other server."""


@fault("leader killed", servers=True)
def leader_killed(context: FaultContext) -> None:
    """The remaining servers elect a new leader."""
    leader = context.ensemble.leader()
    with context.holder(at=leader):
        context.strike()
        leader.kill()
        context.pass_time(0.5)
    context.require_effect(context.ensemble.leader() is not leader, "another server leads")
    context.pass_until(1.5)
    leader.start()


@fault("follower cut from the leader, its clients connected", servers=True)
def follower_cut(context: FaultContext) -> None:
    """A follower is cut off. It keeps replying to reads and pings for longer than a session timeout."""
    leader = context.ensemble.leader()
    follower = context.random.choice(context.ensemble.others(leader))
    before = context.links.withheld(leader.server_id, follower.server_id)

    def took_effect() -> None:
        after = context.links.withheld(leader.server_id, follower.server_id)
        context.require_effect(after > before, "the link to the leader was silent")

    _cut(context, follower, took_effect)


@fault("leader cut from its followers, its clients connected", servers=True)
def leader_cut(context: FaultContext) -> None:
    """The leader is cut off. It keeps acting as leader while the other servers elect a new one."""
    leader = context.ensemble.leader()
    others = context.ensemble.others(leader)

    def took_effect() -> None:
        context.wait_for_effect(lambda: any(_leads(other) for other in others), "another server leads")

    _cut(context, leader, took_effect)


def _cut(context: FaultContext, server: Server, took_effect: Callable[[], None]) -> None:
    confined = context.random.random() < CONFINED
    with context.holder(at=server, confined=confined) as (victim, grant):
        context.strike()
        context.links.cut(server.server_id, *(other.server_id for other in context.ensemble.others(server)))
        context.pass_until(1.5)
        if confined:
            context.wait_for_loss(grant)
        took_effect()
    victim.connections.free()
    context.pass_time(0.5)
    context.links.heal()


def _serves(server: Server) -> bool:
    with contextlib.suppress(NotServing):
        return server.mode() != ""
    return False


def _leads(server: Server) -> bool:
    with contextlib.suppress(NotServing):
        return server.mode() == "leader"
    return False


@fault("no majority for longer than a session", servers=True)
def quorum_lost(context: FaultContext) -> None:
    """Two of three servers are killed."""
    down = context.random.sample(context.ensemble.servers, 2)
    last = next(server for server in context.ensemble.servers if server not in down)
    with context.holder(at=last) as (_, grant):
        context.strike()
        for server in down:
            server.kill()
        context.wait_for_loss(grant)
        context.pass_until(1.5)
        context.wait_for_effect(lambda: not _serves(last), "the last server serves no client")
    for server in down:
        server.launch()


@fault("rolling restart", servers=True)
def rolling_restart(context: FaultContext) -> None:
    """One server after another restarts, including the leader."""
    before = context.ensemble.leader().epoch()
    with context.holder():
        context.strike()
        for server in context.ensemble.servers:
            server.stop()
            server.start()
            context.ensemble.leader()
    context.require_effect(context.ensemble.leader().epoch() > before, "a new leader was elected")


@fault("follower stopped for longer than a session", servers=True)
def follower_stopped(context: FaultContext) -> None:
    """The follower's clients move to another server or lose their leases."""
    follower = context.random.choice(context.ensemble.others(context.ensemble.leader()))
    with context.holder(at=follower) as (victim, grant):
        context.strike()
        follower.pause()
        context.pass_until(1.5)
        context.require_effect(is_stopped(follower.pid), "the server is stopped")
        moved = victim.connections.server_id not in {None, follower.server_id}
        context.require_effect(moved or grant.is_lost, f"{victim} moved elsewhere, or lost its lease")
    follower.resume()


@fault("leader stopped for a moment", servers=True)
def leader_stopped(context: FaultContext) -> None:
    """The leader stops for a short time.

    The library's only assumption about a leader is that it never stops for longer than the time between the
    end of a lease and the expiry of its session (docs/safety.md). This fault stops the leader for less time.
    """
    leader = context.ensemble.leader()
    with context.holder(at=leader):
        context.strike()
        leader.pause()
        context.pass_time(0.2)
        context.require_effect(is_stopped(leader.pid), "the leader is stopped")
        leader.resume()
