"""The first event: the process of the holder is killed, and a waiter in another process gets the lock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from failover.clusters import Cluster
from failover.samples import HOLDER, PATIENCE, TIMEOUT, Sample, due, offset
from harness.answers import now
from harness.worker import Pending, Unanswered, Worker, WorkerError
from locks.programs import Program

REST = 1.0
"""Seconds between the start of the latest process and the earliest kill."""


@dataclass
class Contender:
    """A process that has asked for the lock."""

    worker: Worker
    asked: Pending


class Line:
    """The contenders of one peer. Each one that is killed is replaced at the end of the queue."""

    def __init__(self, program: Program, cluster: Cluster) -> None:
        self.program, self._cluster = program, cluster
        self._path = f"/failover-{program.name}"
        self._new: Worker | None = None
        self.queue: list[Contender] = []

    def launch(self) -> None:
        """Start the process of the next contender."""
        self._new = self.program.start()

    def join(self) -> None:
        """Let the new process queue for the lock."""
        assert self._new is not None
        worker, self._new = self._new, None
        worker.wait_line("ready")
        worker.connect(self._cluster.hosts, session_timeout=TIMEOUT)
        worker.lock(self._path)
        self.queue.append(Contender(worker, worker.acquire()))

    def granted(self) -> int:
        """Wait for the grant to the first contender. Return its stamp in nanoseconds."""
        return int(self.queue[0].asked.expect("acquired", PATIENCE)["t"])

    def kill(self) -> int:
        """Kill the holder. Return the time in nanoseconds."""
        worker = self.queue.pop(0).worker
        worker.kill()
        assert worker.killed is not None
        return worker.killed

    def close(self) -> None:
        """Kill all processes."""
        for contender in self.queue:
            contender.worker.kill()
        self.queue.clear()
        if self._new is not None:
            self._new.kill()


def measure(
    programs: list[Program],
    clusters: dict[str, Cluster],
    repetitions: int,
    step: Callable[[Sample], None],
) -> None:
    """Kill the holders of all peers in each repetition, each at its own time."""
    lines = [Line(program, clusters[program.name]) for program in programs]
    try:
        for _ in range(2):
            for line in lines:
                line.launch()
            for line in lines:
                line.join()
        for number in range(repetitions):
            # Processes that start need the processors. They do that before the kills.
            for line in lines:
                line.launch()
            for line in lines:
                line.join()
            earliest, phase = now() / 1e9 + REST, offset(number, repetitions)
            plan = [(due(line.granted() / 1e9, phase, earliest), line) for line in lines]
            killed = {}
            for at, line in sorted(plan, key=lambda one: one[0]):
                time.sleep(max(0.0, at - now() / 1e9))
                killed[line.program.name] = line.kill()
            for line in lines:
                name = line.program.name
                grant: float | None = None
                with contextlib.suppress(Unanswered, WorkerError):
                    grant = (line.granted() - killed[name]) / 1e9
                step(Sample(HOLDER, name, number, grant))
                if grant is None:
                    line.close()
            lines = [line for line in lines if line.queue]
    finally:
        for line in lines:
            line.close()
