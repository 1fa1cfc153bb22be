"""What can break. Each fault breaks something, lets time pass, and mends it.

A fault looks for a holder: its victim's holders are detained until the fault is over or they have lost.
Where certainty about a hold ends without the holder's doing, the worker's record is told beforehand.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kazoo.exceptions import KazooException, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError

from harness import wire
from harness.links import Links
from harness.nemesis.station import Grant, Lock, Station
from harness.observer import Observer
from harness.server import Ensemble, Server

CATCH = 5.0
"""Seconds to wait for a holder. A fault that finds none hits a waiter."""

CONFINED = 0.5
"""In this share of cases the victim of a server that is cut off can reach no other server."""

WAIT = 30.0
POLL = 0.02


@dataclass
class Stage:
    """What a fault may touch."""

    ensemble: Ensemble
    links: Links
    observer: Observer
    stations: list[Station]
    locks: list[Lock]
    # Locks that no owner may ask for now.
    paused: set[str]
    # Of all sessions, in seconds.
    session_timeout: float
    random: random.Random

    def pass_time(self, timeouts: float) -> None:
        """Wait for this many session time-outs."""
        time.sleep(timeouts * self.session_timeout)

    @property
    def victim(self) -> Station:
        """One of our own stations."""
        return self.random.choice([station for station in self.stations if station.is_ours])

    def at(self, server: Server, *, confined: bool = False) -> Station:
        """One of our own stations, connected to a server. Unless confined there it may move to others."""
        victim = self.victim
        victim.cable.confine(server.server_id)
        if not confined:
            victim.cable.free()
        return victim

    @contextlib.contextmanager
    def holder(self, station: Station | None = None) -> Iterator[tuple[Station, Grant | None]]:
        """An owner at a station that holds, and keeps holding while this lasts."""
        victim = station or self.victim
        try:
            yield victim, victim.await_holder(CATCH)
        finally:
            victim.detained.clear()


Fault = Callable[[Stage], None]

FAULTS: dict[str, Fault] = {}
"""By the names in the table of results."""

OF_SERVERS: set[str] = set()
"""Those that hit every station, including peers, which cannot tell what they have lost."""


def fault(name: str, *, servers: bool = False) -> Callable[[Fault], Fault]:
    """Register a fault."""

    def known(function: Fault) -> Fault:
        FAULTS[name] = function
        if servers:
            OF_SERVERS.add(name)
        return function

    return known


# The holder's process.


@fault("holder killed (`SIGKILL`)")
def killed(stage: Stage) -> None:
    """The session stays open without a client, until it expires."""
    with stage.holder() as (victim, _):
        victim.worker.kill()
    stage.pass_time(0.3)
    victim.replace()


@fault("holder stopped for longer than its session (`SIGSTOP`)")
def stopped(stage: Stage) -> None:
    """It is stopped between its check and its write, and writes when it resumes."""
    with stage.holder() as (victim, _):
        victim.worker.pause()
    stage.pass_time(1.5)
    victim.worker.resume()


@fault("wall clock stepped by an hour")
def wall_clock_stepped(stage: Stage) -> None:
    """Forward or back, and then right again."""
    with stage.holder() as (victim, _):
        victim.clock.step(stage.random.choice([3600, -3600]))
        stage.pass_time(0.5)
    victim.clock.step(0)


# Its connection.


@fault("connection silent, both ways")
def silent(stage: Stage) -> None:
    """A black hole for longer than the session."""
    with stage.holder() as (victim, _):
        victim.cable.silence()
        stage.pass_time(1.5)
    victim.cable.mend()


@fault("connection silent for a moment")
def silent_for_a_moment(stage: Stage) -> None:
    """A black hole within the term."""
    with stage.holder() as (victim, _):
        victim.cable.silence()
        stage.pass_time(stage.random.uniform(0.1, 0.4))
        victim.cable.mend()


@fault("requests dropped, replies pass")
def requests_dropped(stage: Stage) -> None:
    """The server receives nothing any more."""
    with stage.holder() as (victim, _):
        victim.cable.silence("up")
        stage.pass_time(1.5)
    victim.cable.mend()


@fault("replies dropped, requests pass")
def replies_dropped(stage: Stage) -> None:
    """The server receives everything, and the client nothing."""
    with stage.holder() as (victim, _):
        victim.cable.silence("down")
        stage.pass_time(1.5)
    victim.cable.mend()


@fault("connection reset, again and again")
def reset(stage: Stage) -> None:
    """RST to both ends."""
    with stage.holder() as (victim, _):
        for _ in range(5):
            victim.cable.reset()
            stage.pass_time(stage.random.uniform(0.02, 0.2))


@fault("slow link")
def slow(stage: Stage) -> None:
    """Each way takes a tenth of the session time-out, more than half the time between two heartbeats."""
    with stage.holder() as (victim, _):
        victim.cable.slow_down(0.1 * stage.session_timeout)
        stage.pass_time(1.5)
    victim.cable.mend()


@fault("reply to a create lost")
def create_reply_lost(stage: Stage) -> None:
    """The node exists, but its owner does not know its name."""
    victim = stage.victim
    victim.cable.drop_reply("create2")
    stage.pass_time(0.3)
    victim.cable.mend()


@fault("reply to a delete lost")
def delete_reply_lost(stage: Stage) -> None:
    """The node is gone, but its owner does not know."""
    victim = stage.victim
    victim.cable.drop_reply("delete")
    stage.pass_time(0.3)
    victim.cable.mend()


# Its session and its node.


@fault("session ended by somebody else")
def session_ended(stage: Stage) -> None:
    """A second connection takes the session over and closes it."""
    with stage.holder() as (victim, grant):
        session = victim.worker.sessions["c"] if grant is None else grant.session
        password = victim.cable.passwords[session]
        victim.worker.presume_ended(session)
        server = stage.ensemble.leader()
        deadline = time.monotonic() + WAIT
        with contextlib.suppress(wire.SessionGone):
            while not wire.close_session("127.0.0.1", server.port, session, password):
                assert time.monotonic() < deadline, f"session {session:#x} could not be ended"
        stage.pass_time(0.5)


@fault("node deleted by an operator")
def node_deleted(stage: Stage) -> None:
    """The holder's, while it holds."""
    with stage.holder() as (_, grant):
        if grant is not None:
            grant.worker.presume_lost(grant.lease)
            with contextlib.suppress(NoNodeError):
                stage.observer.delete(f"{grant.lock.path}/{grant.node}")
        stage.pass_time(0.5)


@fault("lock directory deleted between uses")
def parent_deleted(stage: Stage) -> None:
    """The next contender creates it again, and its sequence starts at zero."""
    path = stage.locks[-1].path
    stage.paused.add(path)
    try:
        deadline = time.monotonic() + WAIT
        while True:
            try:
                stage.observer.delete(path)
                return
            except NoNodeError:
                return
            except NotEmptyError:
                assert time.monotonic() < deadline, f"{path} is never idle: {stage.observer.children(path)}"
            time.sleep(POLL)
    finally:
        stage.paused.discard(path)


# The servers.


@fault("leader killed", servers=True)
def leader_killed(stage: Stage) -> None:
    """The others elect a new one."""
    leader = stage.ensemble.leader()
    with stage.holder(stage.at(leader)):
        leader.kill()
        stage.pass_time(0.5)
    stage.pass_time(1)
    leader.start()


@fault("follower cut from the leader, its clients connected", servers=True)
def follower_cut(stage: Stage) -> None:
    """It keeps answering reads and pings for longer than a session lasts."""
    leader = stage.ensemble.leader()
    follower = stage.random.choice(stage.ensemble.others(leader))
    _cut(stage, follower)


@fault("leader cut from its followers, its clients connected", servers=True)
def leader_cut(stage: Stage) -> None:
    """It keeps leading without followers while the others elect a new leader."""
    _cut(stage, stage.ensemble.leader())


def _cut(stage: Stage, server: Server) -> None:
    confined = stage.random.random() < CONFINED
    with stage.holder(stage.at(server, confined=confined)) as (victim, _):
        stage.links.cut(server.server_id, *(other.server_id for other in stage.ensemble.others(server)))
        stage.pass_time(1.5)
    victim.cable.free()
    stage.pass_time(0.5)
    stage.links.heal()


@fault("no majority for longer than a session", servers=True)
def quorum_lost(stage: Stage) -> None:
    """Two of three servers are killed."""
    down = stage.random.sample(stage.ensemble.servers, 2)
    last = next(server for server in stage.ensemble.servers if server not in down)
    with stage.holder(stage.at(last)):
        for server in down:
            server.kill()
        stage.pass_time(1.5)
    for server in down:
        server.launch()


@fault("rolling restart", servers=True)
def rolling_restart(stage: Stage) -> None:
    """One server after another, including the leader."""
    with stage.holder():
        for server in stage.ensemble.servers:
            server.stop()
            server.start()
            stage.ensemble.leader()


@fault("follower stopped for longer than a session", servers=True)
def follower_stopped(stage: Stage) -> None:
    """Its clients move elsewhere, or lose their leases."""
    follower = stage.random.choice(stage.ensemble.others(stage.ensemble.leader()))
    with stage.holder(stage.at(follower)):
        follower.pause()
        stage.pass_time(1.5)
    follower.resume()


@fault("leader stopped for a moment", servers=True)
def leader_stopped(stage: Stage) -> None:
    """For less than the margin that a term leaves: the one assumption about a leader."""
    leader = stage.ensemble.leader()
    with stage.holder(stage.at(leader)):
        leader.pause()
        stage.pass_time(0.2)
        leader.resume()


def settle(stage: Stage) -> None:
    """Everything serves again, whatever broke last."""
    for station in stage.stations:
        station.detained.clear()
        if station.is_broken.is_set():
            station.worker.kill()
            station.replace()
    stage.ensemble.wait_serving()
    deadline = time.monotonic() + WAIT
    while True:
        try:
            stage.observer.exists("/")
            return
        except (KazooException, KazooTimeoutError):
            assert time.monotonic() < deadline, "the observer cannot connect"
        time.sleep(POLL)
