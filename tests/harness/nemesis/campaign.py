"""One campaign: all stations contend, faults occur one after another, and the records are checked."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kazoo.exceptions import NoNodeError

from harness.histories import History
from harness.history import Hold, problems
from harness.links import Links
from harness.nemesis import faults, outages
from harness.nemesis.context import FAULTS, OF_SERVERS, PROBE, FaultContext, HadNoEffect, settle
from harness.nemesis.judge import (
    Excuses,
    certain,
    changed_while_reading,
    granted_in_ended_sessions,
    late_writes,
    lost_at_first_check,
    lost_early,
    too_many_inside,
)
from harness.nemesis.record import Held, Loss
from harness.nemesis.register import Registers
from harness.nemesis.station import Lock, Station
from harness.nemesis.workload import HANG, WORKLOADS, Contender, Progress
from harness.observer import Observer
from harness.porcupine import compared
from harness.security import certificates
from harness.server import SOON, Ensemble, Server, Settings
from harness.steps import eventually
from harness.surfaces import PEERS
from harness.worker import Worker

PAUSE = (0.1, 0.4)
"""Pause between two faults, in session timeouts."""

PERMITS = 2
TICKS = 8
"""Server ticks per session timeout."""

LAST_LINES = 8
"""Number of last lines of each station that a failure report contains."""

HISTORIES = "ZKLOCK_HISTORIES"
"""Environment variable with a directory in which campaigns store their histories."""

TLS = "+tls"
"""Suffix of a surface's name: its connections are encrypted."""

# Importing these modules registers their faults.
assert faults
assert outages


@dataclass
class Row:
    """Results of one fault, summed over all its occurrences."""

    rounds: int = 0
    grants: int = 0
    lost: int = 0
    spoilt: int = 0
    refused: int = 0

    def add(self, other: Row) -> None:
        """Add the results of another occurrence."""
        self.rounds += other.rounds
        self.grants += other.grants
        self.lost += other.lost
        self.spoilt += other.spoilt
        self.refused += other.refused


@dataclass(frozen=True)
class Window:
    """Time from a fault until all servers and stations worked again. Stamps are in nanoseconds."""

    fault: str
    began: int
    ended: int

    def __str__(self) -> str:
        return f"[{self.began / 1e9:.3f}, {self.ended / 1e9:.3f}] {self.fault}"


class Campaign:
    """Stations (workers and connections), an ensemble that can be partitioned, and a record of events."""

    def __init__(self, surfaces: Sequence[str], root: str, seed: str, session_timeout: float) -> None:
        self.seed = seed
        self.rows: dict[str, Row] = {}
        self.windows: list[Window] = []
        self.progress = Progress()
        self._random = random.Random(seed)
        self._root = root
        self._session_timeout = session_timeout
        self._surfaces = surfaces
        mutex = Lock("mutex", f"{root}/mutex", "mutex")
        read = Lock("read", f"{root}/rw", "read")
        spare = Lock("spare", f"{root}/spare", "mutex")
        self._locks = [
            mutex,
            read,
            Lock("write", f"{root}/rw", "write", other_half=read),
            Lock("permit", f"{root}/semaphore", "semaphore", PERMITS),
            spare,
            Lock("kazoo", f"{root}/kazoo", "mutex", naming="kazoo"),
            Lock("several", "", "multi", members=(mutex, spare)),
        ]
        self._spare = spare.path
        self._paths = sorted({path for lock in self._locks for path in lock.paths})

    def __enter__(self) -> Campaign:
        with ExitStack() as stack:
            links = stack.enter_context(Links())
            tick = round(self._session_timeout * 1000 / TICKS)
            lines, tls = stack.enter_context(certificates())
            settings = Settings(
                tick=tick,
                # A server that is cut off keeps replying for 1.5 session timeouts.
                sync_limit=TICKS * 3 // 2,
                init_limit=TICKS * 3,
                # The directory of the spare lock is a container. The server deletes it while it is empty.
                container_check=SOON,
                secure=True,
                config=lines,
            )
            ensemble = stack.enter_context(Ensemble(settings=settings, links=links))
            observer = stack.enter_context(Observer(ensemble.hosts))
            self.registers = stack.enter_context(Registers())
            # Create persistent directories, because go-zookeeper and kazoo create a missing directory only
            # once. The server does not delete these directories, so their sequence numbers do not restart.
            for path in {*self._paths, f"{self._root}/{PROBE}"} - {self._spare}:
                observer.create(path)
            self.stations = [
                stack.enter_context(
                    Station(
                        surface.removesuffix(TLS),
                        ensemble.servers,
                        self._locks,
                        self._session_timeout,
                        tls if surface.endswith(TLS) else None,
                    )
                )
                for surface in self._surfaces
            ]
            self._stage = FaultContext(
                ensemble=ensemble,
                links=links,
                observer=observer,
                stations=self.stations,
                locks=self._locks,
                paused=self.progress.paused,
                session_timeout=self._session_timeout,
                random=self._random,
            )
            self._contenders = [
                Contender(station, lock, self.registers, self.progress, self.seed)
                for station in self.stations
                for lock in station.locks
            ]
            for contender in self._contenders:
                contender.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.over.set()
        self._stack.close()

    def play(self, name: str) -> None:
        """Run a fault and repair it. Check that the fault took effect and that all stations make progress."""
        before = self._counted()
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._stage.struck = None
        try:
            FAULTS[name](self._stage)
        except AssertionError as error:
            raise type(error)(f"{name}: {error}\n{self.state()}") from error
        settle(self._stage)
        self._await_progress(name)
        self._stage.pass_time(self._random.uniform(*PAUSE))
        after = self._counted()
        began = self._stage.struck or began
        self.windows.append(Window(name, began, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
        self.rows.setdefault(name, Row()).add(
            Row(
                rounds=1,
                grants=after.grants - before.grants,
                lost=after.lost - before.lost,
                spoilt=after.spoilt - before.spoilt,
                refused=after.refused - before.refused,
            )
        )

    def _counted(self) -> Row:
        writes = list(self.registers.writes)
        return Row(
            grants=sum(self.progress.grants[str(station)] for station in self.stations),
            lost=sum(line["event"] == "lost" for worker in self._workers() for line in list(worker.history)),
            spoilt=sum(write.undid_plain for write in writes),
            refused=sum(write.refused for write in writes),
        )

    def _await_progress(self, name: str) -> None:
        """Wait until every lock and every station has a new grant."""
        before = self.progress.grants.copy()
        wanted = {*self._paths, *map(str, self.stations)}
        deadline = time.monotonic() + HANG
        while stuck := {one for one in wanted if self.progress.grants[one] == before[one]}:
            self._assert_no_failure()
            # Replace each peer (worker of another library) that has reported an error.
            settle(self._stage)
            assert time.monotonic() < deadline, (
                f"after {name} nothing is granted at {sorted(stuck)}\n{self.state()}"
            )
            time.sleep(0.05)

    def _assert_no_failure(self) -> None:
        assert not self.progress.failures, "\n".join([*self.progress.failures, self.state()])

    def state(self) -> str:
        """Describe the queues and each station's last lines, for a person who analyzes a failure."""
        observer = self._stage.observer
        output = [f"seed {self.seed}", *map(str, self.windows[-5:])]
        for path in self._paths:
            output.append(f"{path}:")
            for node in observer.queue(path):
                with suppress(NoNodeError):
                    output.append(f"  {node} of {observer.owner(f'{path}/{node}'):#x}")
        for station in self.stations:
            sessions = [f"{session:#x}" for session in station.connections.passwords]
            output.append(
                f"{station}, connected to server {station.connections.server_id}, sessions {sessions[-3:]}:"
            )
            output += [f"  {line}" for line in station.worker.history[-LAST_LINES:]]
        return "\n".join(output)

    def judge(self) -> list[Hold]:
        """Stop all contenders, check all records, and return the holds."""
        self.progress.over.set()
        for contender in self._contenders:
            contender.join(HANG)
            assert not contender.is_alive(), f"{contender.name} hangs\n{self.state()}"
        self._assert_no_failure()
        self._assert_nothing_left()
        for station in self.stations:
            if station.is_ours:
                station.worker.exit()
        excuses = self._excuses()
        holds = self._certain(excuses)
        writes, first_checks = self.registers.writes, self.progress.first_checks
        found = [
            *problems(holds, restarts={self._spare}),
            *self._run_both_checkers(holds),
            *lost_at_first_check(first_checks, excuses),
            *lost_early(self._losses(), excuses),
            *granted_in_ended_sessions(first_checks, excuses.interventions),
            *late_writes(writes, excuses),
            *changed_while_reading(self.registers.readings, writes, excuses),
            *too_many_inside(self.registers.entries, excuses),
        ]
        known = [f"seed {self.seed}", *map(str, self.windows), *map(str, self._stage.interventions)]
        assert not found, "\n".join([*found, *known])
        missing = WORKLOADS - {name for name, count in self.progress.outcomes.items() if count}
        if missing:
            raise HadNoEffect(
                f"these outcomes never occurred: {sorted(missing)}; only {self.progress.outcomes}"
            )
        return holds

    def _run_both_checkers(self, holds: Sequence[Hold]) -> list[str]:
        """Return the rules that Porcupine finds broken, and the rules on which the two checkers disagree."""
        history = History(f"faults {self.seed}", tuple(holds), frozenset({self._spare}))
        keep = os.environ.get(HISTORIES)
        comparison = compared(history, None if keep is None else Path(keep))
        print(comparison, flush=True)
        return comparison.problems

    def _assert_nothing_left(self) -> None:
        """Assert that no node and no watch is left although zklock's clients are still open."""
        observer = self._stage.observer
        for station in self.stations:
            if not station.is_ours:
                station.worker.kill()

        def left() -> list[str]:
            paths = [path for lock in self._paths for path in (lock, f"{lock}/locks", f"{lock}/leases")]
            return [f"{path}/{node}" for path in paths for node in observer.queue(path)]

        eventually(lambda: not left(), f"no node is left, but {left()}", 3 * self._session_timeout)
        for server in self._stage.ensemble.servers:
            eventually(partial(_watches_nothing, server), f"no watch is left at server {server.server_id}")

    def _excuses(self) -> Excuses:
        workers = self._workers()
        return Excuses(
            stops={worker.name: worker.pauses for worker in workers},
            killed={worker.name: worker.killed for worker in workers if worker.killed is not None},
            interventions=self._stage.interventions,
        )

    def _certain(self, excuses: Excuses) -> list[Hold]:
        """Return the holds that the checker can compare."""
        grace = round(2e9 * self._session_timeout)
        troubles = [
            (window.began, window.ended + grace) for window in self.windows if window.fault in OF_SERVERS
        ]
        peers = {worker.name for worker in self._workers() if worker.surface.name in PEERS}
        holds = [hold for worker in self._workers() for hold in worker.holds()]
        return certain(holds, excuses, peers, troubles)

    def _losses(self) -> list[Loss]:
        """Return the losses that our workers reported."""
        found = []
        for station in self.stations:
            for worker in station.workers if station.is_ours else ():
                held: dict[str, dict[str, Any]] = {}
                for line in worker.lines():
                    if line["event"] == "acquired":
                        name = worker.command(line["id"])["lease"]
                        parts = line.get("leases", [{**line, "lease": name}])
                        held |= {part["lease"]: {**part, "t": line["t"]} for part in parts}
                    elif line["event"] == "lost":
                        grant = held[line["lease"]]
                        path, _, node = grant["node"].rpartition("/")
                        hold = Held(worker.name, int(grant["session"]), node, grant["t"], int(grant["token"]))
                        found.append(Loss(path, hold, grant["remaining"], line["t"], line["reason"]))
        return found

    def _workers(self) -> list[Worker]:
        return [worker for station in self.stations for worker in station.workers]

    def table(self) -> str:
        """Return the results as a Markdown table."""
        total = Row()
        for row in self.rows.values():
            total.add(row)
        rows = [(name, self.rows[name]) for name in FAULTS if name in self.rows]
        head = ["Fault", "Times", "Grants meanwhile", "Leases lost", "Unfenced updates spoilt", "Refused"]
        cells = [head, ["---"] * len(head)]
        for name, row in [*rows, ("all", total)]:
            cells.append([name, *map(str, (row.rounds, row.grants, row.lost, row.spoilt, row.refused))])
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _watches_nothing(server: Server) -> bool:
    return server.four_letter("wchs").endswith("Total watches:0\n")
