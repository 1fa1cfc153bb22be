"""The second and third event: a server is killed while clients hold locks, wait for them and hand them on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from failover.clusters import Cluster
from failover.samples import LEADER, PATIENCE, SERVER, TIMEOUT, Sample, longest_gap, offset
from harness.answers import now
from harness.worker import Line, Pending, Unanswered, Worker, WorkerError
from locks.programs import OURS, Program

REST = 1.0
"""Seconds between the last grant and the earliest kill."""

POLL = 0.01
STEADY = 1.0
"""Seconds for which nothing may change before the effects of a kill count as complete."""

HOLD_MS = 5
"""Time in milliseconds for which the lock that is handed on is held each time."""

TRIES = 30
"""Number of connections after which a client counts as unable to reach a given server."""


class Pair:
    """Two processes of one peer. One holds two locks, the other waits for one of them."""

    def __init__(self, program: Program, cluster: Cluster) -> None:
        self.program, self.cluster = program, cluster
        self.first, self.second = program.start(), program.start()

    def prepare(self, number: int, event: str, victim: int) -> None:
        """Connect new clients and acquire the locks."""
        self._client = f"{event}-{number}"
        self._path = f"/failover-{self.program.name}-{self._client}"
        # All clients must wait for the election of a leader, so they can be on any server then.
        self._connect(self.first, victim if event == SERVER else None)
        self._connect(self.second, None, but=victim if event == SERVER else None)
        for worker in (self.first, self.second):
            worker.lock(f"{self._path}/next", lock=f"next-{self._client}", client=self._client)
        self.first.lock(f"{self._path}/kept", lock=f"kept-{self._client}", client=self._client)
        self.first.hold(f"kept-{self._client}", lock=f"kept-{self._client}")
        self.first.hold(f"next-{self._client}", lock=f"next-{self._client}", owner="b")
        self._nodes = self.cluster.nodes(f"{self._path}/kept")
        self._waiter = self.second.acquire(f"next-{self._client}", lock=f"next-{self._client}", owner="b")
        self._contending: dict[Worker, Pending] = {}
        self._contended: list[tuple[Worker, int]] = []
        self._hands_on = event == LEADER
        if self._hands_on:
            for worker in (self.first, self.second):
                self._contend(worker)
        # Times of the answers to the questions about the lease's state, in nanoseconds.
        self._states: list[tuple[int, str]] = []
        self._asked: Pending | None = None
        self._since = 0.0

    def _connect(self, worker: Worker, to: int | None, *, but: int | None = None) -> None:
        """Connect a client until it is on a given server, or not on another given one."""
        for _ in range(TRIES):
            session = worker.connect(self.cluster.hosts, client=self._client, session_timeout=TIMEOUT)
            is_right = to is None or self.cluster.serves(to, session)
            is_wrong = but is not None and self.program.name != "etcd" and self.cluster.serves(but, session)
            if is_right and not is_wrong:
                return
            worker.call("close", client=self._client)
        raise Unanswered(f"{worker}: no connection to the server that is to be killed")

    def _contend(self, worker: Worker) -> None:
        pending = worker.contend(
            f"{self._path}/handed", owners=1, rounds=10**9, hold_ms=(HOLD_MS, HOLD_MS), client=self._client
        )
        self._contending[worker] = pending
        self._contended.append((worker, pending.id))

    def release(self) -> None:
        """Release the lock that the other process waits for, as a program does whatever the servers do."""
        self._released = self.first.send("release", lease=f"next-{self._client}", owner="b", wait=True)

    def poll(self) -> bool:
        """Ask for the state of the lease. Return whether the effects of the kill are complete."""
        if self.program.name in OURS:
            if self._asked is not None and self._asked.done:
                with contextlib.suppress(WorkerError, Unanswered):
                    told = self._asked.result()
                    self._states.append((told["t"], told["value"]))
                self._asked = None
            if self._asked is None:
                self._asked = self.first.send("state", lease=f"kept-{self._client}")
        for worker, pending in list(self._contending.items()):
            # A contender whose acquire or release has failed tries again, as a program would.
            if pending.done and time.monotonic() - self._since > 0.1:
                self._since = time.monotonic()
                self._contend(worker)
        if not self._waiter.done or (self._states and self._states[-1][1] == "suspended"):
            return False
        return not self._hands_on or any(grant > self._released.sent for grant in self._grants())

    def _grants(self) -> list[int]:
        ids = set(self._contended)
        return [
            line["t"]
            for worker in (self.first, self.second)
            for line in worker.lines()
            if line["event"] == "held" and (worker, line.get("id")) in ids
        ]

    def sample(self, event: str, number: int, killed: int, until: int) -> Sample:
        """Return the effects of a kill."""
        sample = Sample(event, self.program.name, number)
        if event == LEADER:
            sample.grant = longest_gap(self._grants(), killed, until)
        elif self._waiter.done and (line := answered(self._waiter))["event"] == "acquired":
            sample.grant = (line["t"] - killed) / 1e9
        sample.kept = bool(self._nodes) and self.cluster.nodes(f"{self._path}/kept") == self._nodes
        if self.program.name in OURS:
            last = self._states[-1][1] if self._states else ""
            sample.kept = sample.kept and last == "held" and f"kept-{self._client}" not in self.first.lost
            broken = [at for at, state in self._states if state != "held"]
            back = [at for at, state in self._states if state == "held" and at > max(broken, default=killed)]
            if back:
                sample.again = (back[0] - killed) / 1e9 if broken else 0.0
        return sample

    def end(self) -> None:
        """Close the clients."""
        self._contending.clear()
        closing = [worker.send("close", client=self._client) for worker in (self.first, self.second)]
        for one in closing:
            one.wait(5)

    def close(self) -> None:
        """Kill both processes."""
        self.first.kill()
        self.second.kill()


def answered(pending: Pending) -> Line:
    """Return a reply that has arrived."""
    return pending.line(1)


class Round:
    """One kill in each cluster, and its effects on all peers."""

    def __init__(self, event: str, number: int, clusters: list[Cluster]) -> None:
        self._event, self._number = event, number
        self._victims = {
            cluster: cluster.leader() if event == LEADER else cluster.follower(number) for cluster in clusters
        }

    def run(self, pairs: list[Pair], after: float) -> list[Sample]:
        """Kill the servers `after` seconds after the start of the heartbeats. Return the effects."""
        for pair in pairs:
            pair.prepare(self._number, self._event, self._victims[pair.cluster])
        time.sleep(REST + after)
        killed: dict[Cluster, int] = {}
        for cluster, victim in self._victims.items():
            killed[cluster] = now()
            cluster.kill(victim)
        for pair in pairs:
            pair.release()
        deadline, steady = time.monotonic() + PATIENCE, time.monotonic()
        while (moment := time.monotonic()) < min(deadline, steady + STEADY):
            complete = [pair.poll() for pair in pairs]
            if not all(complete):
                steady = moment
            time.sleep(POLL)
        until = now()
        for cluster, victim in self._victims.items():
            cluster.restart(victim)
        samples = [pair.sample(self._event, self._number, killed[pair.cluster], until) for pair in pairs]
        for pair in pairs:
            pair.end()
        return samples


def measure(
    programs: list[Program],
    clusters: dict[str, Cluster],
    repetitions: int,
    step: Callable[[Sample], None],
) -> None:
    """Kill servers: in each repetition the leader, and then a follower. Each kill affects all peers."""
    pairs = [Pair(program, clusters[program.name]) for program in programs]
    several = list(dict.fromkeys(clusters[program.name] for program in programs))
    try:
        for pair in pairs:
            for worker in (pair.first, pair.second):
                worker.wait_line("ready")
        for number in range(repetitions):
            for event in (LEADER, SERVER):
                # Events of one kind follow each other at changing phases, as the holders' kills do.
                for sample in Round(event, number, several).run(pairs, offset(number, repetitions)):
                    step(sample)
    finally:
        for pair in pairs:
            pair.close()
