"""Measures what a client costs its process: `make bench-cost`, or `make bench-cost QUICK=1`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass

from cost.packages import packages
from cost.process import activity, between, collect_garbage, size
from cost.report import PUBLISHED, Json, table
from harness.server import Standalone
from harness.worker import Pending, Worker
from locks.programs import PROGRAMS, Program
from locks.results import RESULTS, idle, machine
from locks.servers import ZOOKEEPER

PEERS = ("rust", "python", "node", "curator", "kazoo", "go", "alone")

WINDOW = 50
"""Locks that a worker starts to wait for at the same time. More would need memory in the worker."""

SETTLE = 5.0
"""Seconds until a process that has started, or has done something, is idle."""

ENOUGH = 300.0
"""Time limit in seconds for acquiring all locks of a state."""


@dataclass(frozen=True)
class Pace:
    """Session timeout and length of a measurement in seconds, and numbers of locks."""

    session_timeout: int
    rest: int
    held: tuple[int, ...]
    waited: tuple[int, ...]


FULL = Pace(10, 20, (1, 100, 10_000), (100, 1_000))
QUICK = Pace(10, 10, (1, 100, 2_000), (100, 500))


class Subject:
    """A process with one client."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.worker: Worker = program.start()
        self.worker.wait_line("ready")
        self.states: dict[str, Json] = {}

    @property
    def path(self) -> str:
        """The path above all locks. Both processes of a program use the same paths."""
        return f"/cost-{self.program.name}"

    def connect(self, hosts: str, pace: Pace) -> None:
        """Connect the client."""
        self.worker.connect(hosts, session_timeout=pace.session_timeout)

    def hold(self, first: int, count: int) -> Pending:
        """Start to acquire locks. The worker stores them without names."""
        return self.worker.hold_many(self.path, first, count)

    def wait(self, numbers: range) -> None:
        """Start to wait for locks. Every lock has a separate owner, so that all can wait."""
        for number in numbers:
            self.worker.lock(f"{self.path}/{number}", lock=f"m{number}")
            self.worker.acquire(f"l{number}", lock=f"m{number}", owner=str(number))

    def look(self, state: str) -> None:
        """Measure the size."""
        if self.program.name == "curator":
            collect_garbage(self.worker.pid)
        self.states[state] = asdict(size(self.worker.pid))


def rest(subjects: list[Subject], state: str, pace: Pace) -> None:
    """Measure the size and the activity of idle processes in this state, all at the same time."""
    time.sleep(SETTLE)
    for subject in subjects:
        subject.look(state)
    # The collection of garbage wakes threads.
    time.sleep(1)
    before = [activity(subject.worker.pid) for subject in subjects]
    time.sleep(pace.rest)
    for subject, first in zip(subjects, before, strict=True):
        spent = between(first, activity(subject.worker.pid), pace.session_timeout)
        subject.states[state] |= spent


class Run:
    """All programs, each with a process that holds locks and a process that waits."""

    def __init__(self, programs: list[Program], pace: Pace, hosts: str) -> None:
        self._pace, self._hosts = pace, hosts
        self.holders = [Subject(program) for program in programs]
        # The client alone has no locks to wait for.
        self.waiters = [Subject(program) for program in programs if program.name != "alone"]

    def _rest(self, subjects: list[Subject], state: str) -> None:
        print(f"measure: {state}", flush=True)
        rest(subjects, state, self._pace)

    def all(self) -> None:
        """Measure all states."""
        both = [*self.holders, *self.waiters]
        self._rest(both, "process")
        for subject in both:
            subject.connect(self._hosts, self._pace)
        self._rest(both, "idle")
        have = 0
        for count in self._pace.held:
            for held in [subject.hold(have, count - have) for subject in self.holders]:
                held.expect("done", ENOUGH)
            have = count
            self._rest(self.holders, f"hold {count}")
        have = 0
        for count in self._pace.waited:
            for first in range(have, count, WINDOW):
                for subject in self.waiters:
                    subject.wait(range(first, min(first + WINDOW, count)))
                time.sleep(0.2)
            have = count
            time.sleep(3)
            self._rest(self.waiters, f"wait {count}")

    def told(self) -> Json:
        """Return the results so far: states by program."""
        told: Json = {subject.program.name: dict(subject.states) for subject in self.holders}
        for subject in self.waiters:
            waits = {name: one for name, one in subject.states.items() if name.startswith("wait ")}
            told[subject.program.name] |= waits
        return told

    def close(self) -> None:
        """Kill all processes."""
        for subject in (*self.holders, *self.waiters):
            subject.worker.kill()


def main() -> int:
    """Measure, write the results, and print the table."""
    parser = argparse.ArgumentParser(prog="make bench-cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most three minutes, with fewer locks")
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=PEERS, default=PEERS)
    given = parser.parse_args()
    pace = QUICK if given.quick else FULL
    began, idle_before = time.monotonic(), idle()
    programs = [PROGRAMS[name] for name in given.peers]
    skipped = {one.name: what for one in programs if (what := one.missing()) is not None}
    told: Json = {
        "day": time.strftime("%Y-%m-%d"),
        "command": "make bench-cost" + (" QUICK=1" if given.quick else ""),
        "machine": machine() | {"idle_before": idle_before},
        "session_timeout": pace.session_timeout,
        "skipped": skipped,
    }
    with Standalone(ZOOKEEPER) as server:
        run = Run([one for one in programs if one.name not in skipped], pace, server.hosts)
        with contextlib.closing(run):
            run.all()
            told["states"] = run.told()
    told["packages"] = packages(told["states"], given.quick)
    told["seconds"] = round(time.monotonic() - began)
    target = RESULTS / "cost-quick.json" if given.quick else PUBLISHED
    target.write_text(json.dumps(told, indent=1) + "\n")
    print(table(told))
    print(f"written: {target}, after {told['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
