"""The parts of a campaign that faults can use, and checks that a fault had an effect."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from harness.answers import now
from harness.links import Links
from harness.nemesis.record import Intervention
from harness.nemesis.station import Grant, Lock, Station
from harness.observer import Observer
from harness.server import Ensemble, Server

HOLDER_TIMEOUT = 30.0
"""Maximum time in seconds to wait for a holder."""

PROBE = "probe"
"""Name of a lock that only faults acquire. No owner contends for it."""

WAIT = 30.0
POLL = 0.02


class HadNoEffect(AssertionError):
    """A fault had no effect, so its round proves nothing."""


class LeaseWasLost(AssertionError):
    """A lease was lost during a fault that must not cause a loss."""


@dataclass
class FaultContext:
    """The parts of a campaign that a fault can use and change."""

    ensemble: Ensemble
    links: Links
    observer: Observer
    stations: list[Station]
    locks: list[Lock]
    # Paths of locks that no owner may acquire now.
    paused: set[str]
    # Session timeout of all clients, in seconds.
    session_timeout: float
    random: random.Random
    interventions: list[Intervention] = field(default_factory=list)
    # Time at which the fault took effect.
    struck: int | None = None

    def pass_time(self, timeouts: float) -> None:
        """Wait for this many session timeouts."""
        time.sleep(timeouts * self.session_timeout)

    def pass_until(self, timeouts: float) -> None:
        """Wait until this many session timeouts after the strike."""
        assert self.struck is not None
        time.sleep(max(0.0, timeouts * self.session_timeout - (now() - self.struck) / 1e9))

    def victim(self, *, plain: bool = False) -> Station:
        """Return a random station that uses zklock. With `plain`, return one without encryption."""
        return self.random.choice(
            [station for station in self.stations if station.is_ours and not (plain and station.is_encrypted)]
        )

    @contextlib.contextmanager
    def holder(
        self, station: Station | None = None, *, at: Server | None = None, confined: bool = False
    ) -> Iterator[tuple[Station, Grant]]:
        """Run the block while an owner at a station keeps a lock.

        With `at`, the station acquires the lock while it is connected to that server. Afterwards it can
        connect to other servers, unless `confined` is true.
        """
        victim = station or self.victim()
        if at is not None:
            victim.connections.confine(at.server_id)
        try:
            grant = victim.await_holder(HOLDER_TIMEOUT)
            if grant is None:
                raise HadNoEffect(f"no owner at {victim} held a lock")
            if at is not None:
                self.require_effect(
                    victim.connections.server_id == at.server_id, f"{victim} is connected to the server"
                )
                if not confined:
                    victim.connections.free()
            yield victim, grant
        finally:
            victim.detained.clear()

    def strike(self) -> int:
        """Record that the fault takes effect now. Return the stamp."""
        self.struck = now()
        return self.struck

    def require_effect(self, took_effect: bool, what: str) -> None:
        """Fail the round unless the fault had the effect that its name says."""
        if not took_effect:
            raise HadNoEffect(f"the fault had no effect: {what}")

    def wait_for_effect(self, took_effect: Callable[[], bool], what: str, timeout: float = WAIT) -> None:
        """Wait until the fault has had its effect, or fail the round."""
        deadline = time.monotonic() + timeout
        while not took_effect():
            self.require_effect(time.monotonic() < deadline, what)
            time.sleep(POLL)

    def wait_for_loss(self, grant: Grant) -> None:
        """Wait until the worker has reported that this lease is lost."""

        def reported() -> bool:
            return any(
                line["event"] == "lost" and line["lease"] == grant.lease and line["t"] >= grant.granted
                for line in grant.worker.lines()
            )

        self.wait_for_effect(reported, f"{grant.lease} of {grant.worker} is lost")

    def wait_for_deletion(self, grant: Grant) -> None:
        """Wait until the servers have deleted the grant's node."""

        def gone() -> bool:
            try:
                return not self.observer.exists(grant.node_path)
            except (KazooException, KazooTimeoutError):
                return False

        self.wait_for_effect(gone, f"{grant.node_path} is gone")

    def require_no_loss(self, grant: Grant) -> None:
        """Fail if this lease is lost: the fault must not cost it."""
        if grant.is_lost:
            raise LeaseWasLost(f"{grant.lease} of {grant.worker} is lost\n{grant.worker.lines()[-20:]}")


Fault = Callable[[FaultContext], None]

FAULTS: dict[str, Fault] = {}
"""All faults, by their names in the table of results."""

OF_SERVERS: set[str] = set()
"""Names of the faults that affect every station, including peers (workers of other libraries).

A peer does not notice that such a fault has ended its hold.
"""


def fault(name: str, *, servers: bool = False) -> Callable[[Fault], Fault]:
    """Register a fault."""

    def known(function: Fault) -> Fault:
        FAULTS[name] = function
        if servers:
            OF_SERVERS.add(name)
        return function

    return known


def settle(context: FaultContext) -> None:
    """Wait until everything works again. Broken workers are replaced."""
    for station in context.stations:
        station.detained.clear()
        if station.is_broken.is_set():
            station.worker.kill()
            station.replace()
    context.ensemble.wait_serving()
    deadline = time.monotonic() + WAIT
    while True:
        try:
            context.observer.exists("/")
            return
        except (KazooException, KazooTimeoutError):
            assert time.monotonic() < deadline, "the observer cannot connect"
        time.sleep(POLL)
