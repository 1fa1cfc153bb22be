"""The second and third event: a server is killed while clients hold locks, wait for them and hand them on.

All peers use the same ensemble, so one kill serves all of them. In each round, a follower and then the leader
is killed, so clients connect only once a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from failover.clusters import Cluster
from failover.effects import Handing, Kept, NextGrant
from failover.samples import LEADER, PATIENCE, SERVER, TIMEOUT, Sample, offset
from harness.answers import now
from harness.worker import WorkerError
from locks.programs import OURS, Program

T = TypeVar("T")

REST = 1.0
"""Seconds between the last grant and the earliest kill."""

POLL = 0.01

TRIES = 30
"""Number of connections after which a client counts as unable to reach a given server."""

ORDER = (SERVER, LEADER)
"""Clients can be on any server when the leader is killed, because all of them wait for the election. They
need not connect again after the first event.
"""


class Pair:
    """Two processes of one peer."""

    def __init__(self, program: Program, cluster: Cluster) -> None:
        self.program, self.cluster = program, cluster
        self.first, self.second = program.start(), program.start()
        self._clients = 0
        self._client = ""
        self._is_connected = False
        # True while the effects of a kill are observed.
        self._is_open = False

    def ready(self) -> None:
        """Wait until both processes have started."""
        for worker in (self.first, self.second):
            worker.wait_line("ready")

    def prepare(self, number: int, event: str, victim: int) -> None:
        """Acquire the locks, if necessary with new clients. Print a problem, and then take no part."""
        self._is_open = False
        try:
            if not self._is_connected:
                self._connect(victim)
            path = f"/failover-{self.program.name}-{event}-{number}"
            kept = f"kept-{event}-{number}"
            reports = self.program.name in OURS
            self._kept = Kept(self.first, kept, f"{path}/kept", self._client, reports=reports)
            self._nodes = self.cluster.nodes(f"{path}/kept")
            self._grants = (
                Handing((self.first, self.second), f"{path}/handed", self._client)
                if event == LEADER
                else NextGrant(
                    self.first, self.second, f"next-{event}-{number}", f"{path}/next", self._client
                )
            )
        except (AssertionError, WorkerError) as problem:
            print(f"{self.program.name} takes no part in a kill: {problem}", flush=True)
            self.disconnect()
        else:
            self._path, self._is_open = path, True

    def _connect(self, victim: int) -> None:
        """Connect a client to the server that will be killed, and one to another server."""
        self._clients += 1
        self._client = f"c{self._clients}"
        for worker, wanted in ((self.first, True), (self.second, False)):
            for _ in range(TRIES):
                session = worker.connect(self.cluster.hosts, client=self._client, session_timeout=TIMEOUT)
                if self.cluster.serves(victim, session) in (wanted, None):
                    break
                worker.call("close", client=self._client)
            else:
                raise AssertionError(f"{worker}: no connection to the wanted server in {TRIES} tries")
        self._is_connected = True

    def begin(self, killed: int) -> None:
        """Act as a program does after the kill. `killed` is its time in nanoseconds."""
        self._killed = killed
        if self._is_open:
            self._grants.begin()

    def poll(self) -> bool:
        """Return whether all effects of the kill are complete."""
        if not self._is_open:
            return True
        complete = [one.poll(self._killed) for one in (self._kept, self._grants)]
        return all(complete)

    def sample(self, event: str, number: int) -> Sample | None:
        """Return the effects of the kill, or None if the pair took no part."""
        if not self._is_open:
            return None
        sample = Sample(event, self.program.name, number, self._grants.grant(self._killed))
        there = bool(self._nodes) and self.cluster.nodes(f"{self._path}/kept") == self._nodes
        sample.kept = there and not self._kept.is_lost
        sample.again = self._kept.again
        if self.program.name in OURS:
            sample.kept = sample.kept and sample.again is not None
        if sample.grant is None or not sample.kept:
            self.disconnect()
        return sample

    def disconnect(self) -> None:
        """Close the clients. The next event connects new ones."""
        if self._clients:
            workers = (self.first, self.second)
            closing = [worker.send("close", client=self._client) for worker in workers]
            for one in closing:
                one.wait(5)
        self._is_connected = False

    def close(self) -> None:
        """Kill both processes."""
        self.first.kill()
        self.second.kill()


class Rounds:
    """Kills servers of all clusters at the same time, and observes the effects on all peers."""

    def __init__(self, pairs: list[Pair], step: Callable[[Sample], None], pool: ThreadPoolExecutor) -> None:
        self._pairs, self._step, self._pool = pairs, step, pool
        self._clusters = list(dict.fromkeys(pair.cluster for pair in pairs))

    def run(self, number: int, events: tuple[str, ...], after: float) -> None:
        """Run the events of a round. Kill each server `after` seconds after the start of the heartbeats."""
        self._wait()
        for event in events:
            self._kill(number, event, after)
        self._each(lambda pair: pair.disconnect())

    def _wait(self) -> None:
        for cluster in self._clusters:
            cluster.wait()

    def _each(self, do: Callable[[Pair], T]) -> list[T]:
        """Run a function for all pairs at the same time."""
        return list(self._pool.map(do, self._pairs))

    def _kill(self, number: int, event: str, after: float) -> None:
        victims = {
            cluster: cluster.leader() if event == LEADER else cluster.follower(number)
            for cluster in self._clusters
        }
        self._each(lambda pair: pair.prepare(number, event, victims[pair.cluster]))
        # The server that was killed before must serve again, because two servers are needed.
        self._wait()
        time.sleep(REST + after)
        for cluster, victim in victims.items():
            killed = now()
            cluster.kill(victim)
            for pair in self._pairs:
                if pair.cluster is cluster:
                    pair.begin(killed)
        self._observe()
        # The servers start while the effects are read and the next locks are acquired.
        for cluster, victim in victims.items():
            cluster.launch(victim)
        for sample in self._each(lambda pair: pair.sample(event, number)):
            if sample is not None:
                self._step(sample)

    def _observe(self) -> None:
        """Wait until the effects on all peers are complete, or for a limited time."""
        deadline, waiting = time.monotonic() + PATIENCE, self._pairs
        while waiting and time.monotonic() < deadline:
            waiting = [pair for pair in waiting if not pair.poll()]
            time.sleep(POLL)


def measure(
    programs: list[Program],
    clusters: dict[str, Cluster],
    events: tuple[str, ...],
    repetitions: int,
    step: Callable[[Sample], None],
) -> None:
    """Kill servers: in each repetition a follower, and then the leader. Each kill affects all peers."""
    pairs = [Pair(program, clusters[program.name]) for program in programs]
    with ThreadPoolExecutor(len(pairs)) as pool:
        try:
            rounds = Rounds(pairs, step, pool)
            for pair in pairs:
                pair.ready()
            for number in range(repetitions):
                rounds.run(number, events, offset(number, repetitions))
        finally:
            for pair in pairs:
                pair.close()
