"""Faults at a holder: in its process, its connection, its session, or its node.

Each fault causes damage, waits, repairs the damage, and checks that it had an effect. If it had none, the
campaign fails. A fault needs a holder, so the attacked workers keep their locks until the fault is over or
they lose the lock. Before a fault makes a hold uncertain, it adds a line about this to the worker's
record.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from kazoo.exceptions import NoNodeError, NotEmptyError

from harness import wire
from harness.answers import now
from harness.history import NEVER
from harness.nemesis.context import POLL, PROBE, WAIT, FaultContext, fault
from harness.nemesis.record import Intervention
from harness.nemesis.station import Station

HOUR = 3600

HARMLESS = 0.25
"""Duration of a silence that causes no loss of a lease, in session timeouts.

A heartbeat every sixth of the session timeout extends the lease to half a session timeout. Therefore at least
a third of the session timeout remains when the silence begins.
"""

# Faults of the holder's process.


@fault("holder killed (`SIGKILL`)")
def killed(context: FaultContext) -> None:
    """The holder's process is killed. Its session stays open without a client until it expires."""
    with context.holder() as (victim, grant):
        victim.worker.kill()
        context.require_effect(
            context.observer.exists(grant.node_path), "the dead holder's node is still there"
        )
    context.pass_time(0.3)
    victim.replace()
    context.wait_for_deletion(grant)


@fault("holder stopped for longer than its session (`SIGSTOP`)")
def stopped(context: FaultContext) -> None:
    """The holder is stopped between the check of its lease and its write, and writes when it resumes."""
    with context.holder() as (victim, grant):
        victim.worker.pause()
        context.strike()
    context.pass_until(1.5)
    context.wait_for_deletion(grant)
    context.require_effect(is_stopped(victim.worker.pid), "its process is stopped")
    victim.worker.resume()


@fault("wall clock stepped by an hour")
def wall_clock_stepped(context: FaultContext) -> None:
    """The wall clock is set an hour ahead and an hour back, in random order, and then to the true time.

    Each node contains the client's wall-clock time, which shows that the fault took effect.
    """
    with context.holder() as (victim, grant):
        try:
            for step in context.random.sample([HOUR, -HOUR], 2):
                victim.clock.step(step)
                seen = json.loads(probe(context, victim)[1])["since"] / 1000 - time.time()
                context.require_effect(
                    abs(seen - step) < HOUR / 60, f"the engine's clock is off by {step} s, not {seen} s"
                )
                context.pass_time(0.3)
                context.require_no_loss(grant)
        finally:
            victim.clock.step(0)


def probe(context: FaultContext, station: Station) -> tuple[float, str]:
    """Let a worker acquire a lock that only faults use.

    Return the remaining time of its lease in seconds, and the data of its node.
    """
    path = context.locks[0].path.rpartition("/")[0] + f"/{PROBE}"
    station.worker.lock(path, lock=PROBE)
    line = station.worker.hold(PROBE, lock=PROBE, owner=PROBE)
    assert 0 < line["remaining"] <= context.session_timeout / 2, f"the term of a grant is wrong: {line}"
    # The observer's server might not have the node yet.
    context.observer.client.sync(line["node"])
    data = context.observer.client.get(line["node"])[0]
    station.worker.release(PROBE, owner=PROBE)
    return line["remaining"], data.decode()


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# Faults of the holder's connection.


@fault("connection silent, both ways")
def silent(context: FaultContext) -> None:
    """The connection is a black hole for longer than the session lasts."""
    with context.holder() as (victim, grant):
        before = victim.connections.withheld
        victim.connections.silence()
        context.strike()
        context.wait_for_loss(grant)
        context.wait_for_deletion(grant)
        context.pass_until(1.5)
        context.require_effect(victim.connections.withheld["up"] > before["up"], "requests were held back")
    victim.connections.repair()


@fault("connection silent for a moment")
def silent_for_a_moment(context: FaultContext) -> None:
    """The connection is a black hole for less than a term."""
    with context.holder() as (victim, grant):
        before = victim.connections.withheld
        began = now()
        victim.connections.silence()
        # At least one heartbeat is due in this time.
        context.pass_time(context.random.uniform(0.2, 0.4))
        context.require_effect(victim.connections.withheld["up"] > before["up"], "requests were held back")
        victim.connections.repair()
        if now() - began < HARMLESS * 1e9 * context.session_timeout:
            context.require_no_loss(grant)


@fault("requests dropped, replies pass")
def requests_dropped(context: FaultContext) -> None:
    """The server receives nothing more, but its replies pass."""
    with context.holder() as (victim, grant):
        before = victim.connections.withheld
        victim.connections.silence("up")
        context.strike()
        context.wait_for_loss(grant)
        context.pass_until(1.5)
        after = victim.connections.withheld
        context.require_effect(after["up"] > before["up"], "requests were held back")
        context.require_effect(after["down"] == before["down"], "replies were not")
    victim.connections.repair()


@fault("replies dropped, requests pass")
def replies_dropped(context: FaultContext) -> None:
    """The server receives everything, but the client receives nothing."""
    with context.holder() as (victim, grant):
        before = victim.connections.withheld
        victim.connections.silence("down")
        context.strike()
        context.wait_for_loss(grant)
        context.pass_until(1.5)
        after = victim.connections.withheld
        context.require_effect(after["down"] > before["down"], "replies were held back")
        context.require_effect(after["up"] == before["up"], "requests were not")
    victim.connections.repair()


@fault("connection reset, again and again")
def reset(context: FaultContext) -> None:
    """Both ends of the holder's connection receive an RST, several times."""
    with context.holder() as (victim, _):
        for _ in range(5):
            context.wait_for_effect(victim.connections.reset, "there was a connection to reset")
            context.pass_time(context.random.uniform(0.02, 0.2))


@fault("slow link")
def slow(context: FaultContext) -> None:
    """A round trip takes a fifth of the session timeout, which is longer than a heartbeat interval."""
    delay = 0.1 * context.session_timeout
    with context.holder() as (victim, _):
        victim.connections.slow_down(delay)
        context.pass_time(1)
        # A lease is valid for half a session timeout after the client has sent a heartbeat. The reply, which
        # extends the lease, arrives two delays later.
        longest = context.session_timeout / 2 - 2 * delay
        remaining, _ = probe(context, victim)
        assert remaining <= longest, f"a term of {remaining} s, where {longest} s is the most that is certain"
        context.pass_time(0.5)
        context.require_effect(victim.connections.slowest >= delay, "frames were delayed by this much")
    victim.connections.repair()


@fault("reply to a create lost")
def create_reply_lost(context: FaultContext) -> None:
    """The node exists, but its owner does not know its name."""
    _lose_reply(context, "create2")


@fault("reply to a delete lost")
def delete_reply_lost(context: FaultContext) -> None:
    """The node is deleted, but its owner does not know that."""
    _lose_reply(context, "delete")


def _lose_reply(context: FaultContext, op: str) -> None:
    victim = context.victim(plain=True)
    traps = victim.connections.drop_reply(op)
    context.wait_for_effect(lambda: any(trap.triggered for trap in traps), f"the reply to a {op} was dropped")
    context.pass_time(0.2)
    victim.connections.repair()


# Faults of the holder's session and node.


@fault("session closed by another client")
def session_ended(context: FaultContext) -> None:
    """A second connection takes over the session and closes it."""
    with context.holder(context.victim(plain=True)) as (victim, grant):
        password = victim.connections.passwords[grant.session]
        began = now()
        victim.worker.presume_ended(grant.session)
        server = context.ensemble.leader()
        deadline = time.monotonic() + WAIT
        with contextlib.suppress(wire.SessionGone):
            while not wire.close_session("127.0.0.1", server.port, grant.session, password):
                context.require_effect(time.monotonic() < deadline, f"session {grant.session:#x} was ended")
        context.wait_for_loss(grant)

        def losses() -> list[int]:
            lines = victim.worker.lines()
            return [line["t"] for line in lines if line["event"] == "state" and line["t"] > began]

        context.wait_for_effect(lambda: bool(losses()), f"{victim.worker} reported that its session is over")
        # Add some time, because an acquire that succeeded before the report can have a slightly later stamp.
        known = losses()[0] + round(context.session_timeout / 8 * 1e9)
        context.interventions.append(Intervention(grant.session, None, began, known))
        context.pass_time(0.5)


@fault("node deleted by an operator")
def node_deleted(context: FaultContext) -> None:
    """An operator deletes the holder's node while it holds."""
    with context.holder() as (_, grant):
        grant.worker.presume_lost(grant.lease)
        context.interventions.append(Intervention(grant.session, grant.node, now(), NEVER))
        try:
            context.observer.delete(grant.node_path)
        except NoNodeError:
            context.require_effect(False, "there was a node to delete")
        context.wait_for_loss(grant)
        context.pass_time(0.3)


@fault("lock directory deleted between uses")
def parent_deleted(context: FaultContext) -> None:
    """The unused lock directory is deleted.

    The next contender creates it again, so the sequence numbers restart at zero.
    """
    path = next(lock.path for lock in context.locks if lock.name == "spare")
    deadline = time.monotonic() + WAIT
    while (before := _delete_idle(context, path, deadline)) is None:
        # The directory does not exist: it is a container, and the server has already deleted it.
        context.require_effect(time.monotonic() < deadline, f"there was a directory {path} to delete")
        context.wait_for_effect(lambda: context.observer.exists(path), f"{path} is used again")

    def is_new() -> bool:
        with contextlib.suppress(NoNodeError):
            return context.observer.czxid(path) > before
        return False

    context.wait_for_effect(is_new, f"{path} was created again")


def _delete_idle(context: FaultContext, path: str, deadline: float) -> int | None:
    """Delete a directory while it is unused. Return its czxid, or None if it does not exist."""
    context.paused.add(path)
    try:
        while True:
            with contextlib.suppress(NotEmptyError):
                czxid = context.observer.czxid(path)
                context.observer.delete(path)
                return czxid
            left = context.observer.children(path)
            context.require_effect(time.monotonic() < deadline, f"{path} is idle: {left}")
            time.sleep(POLL)
    except NoNodeError:
        return None
    finally:
        context.paused.discard(path)
