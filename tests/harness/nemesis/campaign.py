"""One campaign: all stations contend, one thing after another breaks, and the records are judged."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from kazoo.exceptions import NoNodeError

from harness.history import NEVER, Hold, problems
from harness.links import Links
from harness.nemesis.faults import FAULTS, OF_SERVERS, Stage, settle
from harness.nemesis.register import Registers, Write
from harness.nemesis.station import Lock, Station
from harness.nemesis.workload import HANG, Contender, Progress
from harness.observer import Observer
from harness.server import Ensemble, Server, Settings
from harness.steps import eventually
from harness.surfaces import PEERS
from harness.worker import Worker

CALM = (0.1, 0.4)
"""Session time-outs between one fault and the next."""

PERMITS = 2
TICKS = 8
"""Per session time-out."""

LAST_WORDS = 8
"""Of each station, if something has gone wrong."""

JUST_NOW = 3_000_000_000
"""Nanoseconds."""


@dataclass
class Row:
    """What a fault did, over all its occurrences."""

    rounds: int = 0
    grants: int = 0
    lost: int = 0
    spoilt: int = 0
    refused: int = 0

    def add(self, other: Row) -> None:
        """Add the next occurrence."""
        self.rounds += other.rounds
        self.grants += other.grants
        self.lost += other.lost
        self.spoilt += other.spoilt
        self.refused += other.refused


@dataclass(frozen=True)
class Window:
    """From the beginning of a fault until everything served again. Stamps in nanoseconds."""

    fault: str
    began: int
    ended: int

    def __str__(self) -> str:
        return f"[{self.began / 1e9:.3f}, {self.ended / 1e9:.3f}] {self.fault}"


class Campaign:
    """A number of stations, an ensemble that can be partitioned, and a record of all that happened."""

    def __init__(self, surfaces: Sequence[str], root: str, seed: str, session_timeout: float) -> None:
        self.seed = seed
        self.rows: dict[str, Row] = {}
        self.windows: list[Window] = []
        self.progress = Progress()
        self._random = random.Random(seed)
        self._root = root
        self._session_timeout = session_timeout
        self._surfaces = surfaces
        self._locks = [
            Lock("mutex", f"{root}/mutex", "mutex"),
            Lock("read", f"{root}/rw", "read"),
            Lock("write", f"{root}/rw", "write"),
            Lock("permit", f"{root}/semaphore", "semaphore", PERMITS),
            Lock("spare", f"{root}/spare", "mutex"),
        ]

    def __enter__(self) -> Campaign:
        with ExitStack() as stack:
            links = stack.enter_context(Links())
            tick = round(self._session_timeout * 1000 / TICKS)
            # A server that is cut off keeps answering for half again as long as its clients' sessions last.
            settings = Settings(tick=tick, sync_limit=TICKS * 3 // 2, init_limit=TICKS * 3)
            ensemble = stack.enter_context(Ensemble(settings=settings, links=links))
            observer = stack.enter_context(Observer(ensemble.hosts))
            self.registers = stack.enter_context(Registers())
            # Persistent: go-zookeeper and kazoo ensure only once that their parents exist.
            observer.create(self._locks[0].path)
            self.stations = [
                stack.enter_context(Station(surface, ensemble.servers, self._locks, self._session_timeout))
                for surface in self._surfaces
            ]
            self._stage = Stage(
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
        """Break something, mend it, and check that all stations move on."""
        before = self._counted()
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        FAULTS[name](self._stage)
        settle(self._stage)
        self._await_progress(name)
        self._stage.pass_time(self._random.uniform(*CALM))
        after = self._counted()
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
            spoilt=sum(write.spoilt_plain for write in writes),
            refused=sum(write.refused for write in writes),
        )

    def _await_progress(self, name: str) -> None:
        """Every lock is granted again, and every station is granted something."""
        before = self.progress.grants.copy()
        wanted = {lock.path for lock in self._locks} | {str(station) for station in self.stations}
        deadline = time.monotonic() + HANG
        while stuck := {one for one in wanted if self.progress.grants[one] == before[one]}:
            self._assert_no_failure()
            # A peer that has reported an error is replaced, even if it reports it late.
            settle(self._stage)
            assert time.monotonic() < deadline, (
                f"after {name} nothing is granted at {sorted(stuck)}\n{self.state()}"
            )
            time.sleep(0.05)

    def _assert_no_failure(self) -> None:
        assert not self.progress.failures, "\n".join([*self.progress.failures, self.state()])

    def state(self) -> str:
        """Who stands where, and who last said what: for the person who has to find out."""
        observer = self._stage.observer
        told = [f"seed {self.seed}", *map(str, self.windows[-5:])]
        for path in sorted({lock.path for lock in self._locks}):
            told.append(f"{path}:")
            for node in observer.queue(path):
                with suppress(NoNodeError):
                    told.append(f"  {node} of {observer.owner(f'{path}/{node}'):#x}")
        for station in self.stations:
            sessions = [f"{session:#x}" for session in station.cable.passwords]
            told.append(
                f"{station}, connected to server {station.cable.server_id}, sessions {sessions[-3:]}:"
            )
            told += [f"  {line}" for line in station.worker.history[-LAST_WORDS:]]
        return "\n".join(told)

    def judge(self) -> list[Hold]:
        """Let everything end, and judge everything that was recorded. Returns the holds."""
        self.progress.over.set()
        for contender in self._contenders:
            contender.join(HANG)
            assert not contender.is_alive(), f"{contender.name} hangs\n{self.state()}"
        self._assert_no_failure()
        self._assert_nothing_left()
        for station in self.stations:
            if station.is_ours:
                station.worker.exit()
        holds = self._certain()
        found = problems(holds, restarts=True)
        assert not found, "\n".join([*found, f"seed {self.seed}", *map(str, self.windows)])
        self._judge_writes()
        return holds

    def _assert_nothing_left(self) -> None:
        """No node and no watch is left while the clients that might have left one still exist."""
        observer = self._stage.observer
        for station in self.stations:
            if not station.is_ours:
                station.worker.kill()

        def left() -> list[str]:
            paths = [lock.path for lock in self._locks]
            paths += [f"{path}/{part}" for path in paths for part in ("locks", "leases")]
            return [f"{path}/{node}" for path in paths for node in observer.queue(path)]

        eventually(lambda: not left(), f"no node is left, but {left()}", 3 * self._session_timeout)
        for server in self._stage.ensemble.servers:
            eventually(partial(_watches_nothing, server), f"no watch is left at server {server.server_id}")

    def _certain(self) -> list[Hold]:
        """The holds that were certain, and that meant something."""
        holds = [hold for worker in self._workers() for hold in worker.holds()]
        trouble = [window for window in self.windows if window.fault in OF_SERVERS]
        peers = {worker.name for worker in self._workers() if worker.surface.name in PEERS}

        def means_something(hold: Hold) -> bool:
            if hold.until <= hold.granted:
                return False
            # A peer does not learn in time what it has lost.
            grace = round(2e9 * self._session_timeout)
            return hold.worker not in peers or not any(
                hold.granted < window.ended + grace and window.began < hold.until for window in trouble
            )

        return [hold for hold in holds if means_something(hold)]

    def _judge_writes(self) -> None:
        """No fenced write is ever lost, and only a process that was stopped writes late."""
        pauses = {worker.name: worker.pauses for worker in self._workers()}

        def was_stopped(write: Write) -> bool:
            # It writes as soon as it resumes.
            spans = pauses[write.writer]
            return any(began < write.t < (ended or NEVER) + JUST_NOW for began, ended in spans)

        newest: dict[str, int] = {}
        for write in self.registers.writes:
            assert not write.spoilt_fenced, f"a fenced write undid another: {write}"
            if write.refused:
                assert was_stopped(write), f"late, and was not stopped: {write}"
            else:
                assert write.token > newest.get(write.name, 0), f"a token came back: {write}"
                newest[write.name] = write.token

    def _workers(self) -> list[Worker]:
        return [worker for station in self.stations for worker in station.workers]

    def table(self) -> str:
        """The results, as Markdown."""
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
