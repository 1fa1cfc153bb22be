"""Measures a fleet of clients on one real server and writes `results/scale.json`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable

from harness.server import Standalone
from locks.results import RESULTS
from locks.servers import ZOOKEEPER
from scale.fleet import ROOT, Fleet
from scale.meter import Moment, between, look
from scale.report import publish

PROCESSES = 4
TIMEOUTS = (10, 30)
"""Session timeouts in seconds. All phases are measured with the first one."""

Phase = dict[str, float | int]


class Run:
    """One fleet with one session timeout, phase by phase."""

    def __init__(self, server: Standalone, fleet: Fleet, timeout: int, save: Callable[[], None]) -> None:
        self._server, self._fleet = server, fleet
        self._window = 20
        self._timeout, self._save = timeout, save
        self.phases: dict[str, Phase] = {}

    def _look(self) -> Moment:
        return look(self._server, self._fleet.pids)

    def _end(self, name: str, before: Moment, told: dict[str, int] | None = None) -> None:
        phase = between(before, self._look()) | (told or {})
        self.phases[name] = phase
        self._save()
        print(
            f"T={self._timeout} {name}: {phase['seconds']} s, {phase['requests']:,} requests,"
            f" {phase['writes']:,} writes, clients {phase['client_kib'] // 1024} MiB with"
            f" {phase['client_threads']:,} threads, server {phase['server_kib'] // 1024} MiB",
            flush=True,
        )
        if phase.get("losses", 0):
            raise SystemExit(
                f"{phase['losses']:,} leases were lost, because the server was overloaded: "
                "the results are not valid"
            )

    def do(self, name: str, command: str) -> None:
        """Let the fleet run a command and measure until it is done."""
        before = self._look()
        _, told = self._fleet.do(command)
        self._end(name, before, told)

    def rest(self, name: str) -> None:
        """Measure for a while without any command."""
        time.sleep(3)
        before = self._look()
        time.sleep(self._window)
        _, told = self._fleet.do("look")
        self._end(name, before, told)

    def queue(self, clients: int, each: int) -> None:
        """Distribute the clients over queues of `each` clients. They wait, and then acquire their locks one
        after another.
        """
        before, locks = self._look(), clients // each
        self._fleet.do(f"queue {locks}")
        deadline = time.monotonic() + 120
        # Each contender has one node, and each queue has a directory.
        while self._look().nodes < before.nodes + clients and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        self._end(f"join queues of {each}", before)
        self.rest(f"wait in queues of {each}")
        self.do(f"drain queues of {each}", "drain")

    def some(self) -> None:
        """Run the phases whose results depend on the session timeout."""
        self.do("connect", "connect")
        self.rest("idle")
        self.do("acquire 1", "hold 1")
        self.rest("hold 1")

    def all(self, clients: int, each: int) -> None:
        """Run all phases."""
        self.do("connect", "connect")
        self.rest("idle")
        self.queue(clients, 10)
        self.queue(clients, clients)
        self.do("acquire 1", "hold 1")
        self.rest("hold 1")
        self.do("acquire more", f"hold {each}")
        self.rest("hold all")
        self.do("close", "close")


def main() -> int:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--locks", type=int, default=100, help="number of locks for each client")
    parser.add_argument(
        "--quick", action="store_true", help="200 clients, 20 locks each, one session timeout"
    )
    parser.add_argument("--as-built", action="store_true", help="use the program as it was last built")
    arguments = parser.parse_args()
    quick = arguments.quick
    clients, each = (200, 20) if quick else (arguments.clients, arguments.locks)
    build = ["cargo", "build", "--locked", "--release", "-p", "zklock-bench-locks", "--bin", "bench-scale"]
    if not arguments.as_built:
        subprocess.run(build, cwd=ROOT, check=True)
    runs: dict[str, dict[str, Phase]] = {}
    target = RESULTS / ("scale-quick.json" if quick else "scale.json")

    def save() -> None:
        told = {
            "day": time.strftime("%Y-%m-%d"),
            "clients": clients,
            "locks": clients * each,
            "processes": PROCESSES,
            "runs": runs,
        }
        target.write_text(json.dumps(told, indent=1) + "\n")

    for timeout in TIMEOUTS[:1] if quick else TIMEOUTS:
        # Start a new server for each run, because a server's memory never shrinks.
        with Standalone(ZOOKEEPER) as server, Fleet(server.hosts, clients, PROCESSES, timeout) as fleet:
            run = Run(server, fleet, timeout, save)
            runs[str(timeout)] = run.phases
            if timeout == TIMEOUTS[0]:
                start = look(server, fleet.pids)
                run.phases["start"] = between(start, start)
                run.all(clients, each)
            else:
                run.some()
    print(target)
    if not quick:
        publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
