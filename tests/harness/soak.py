"""Lets workers acquire locks repeatedly for a given time, and checks the history."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from harness.histories import History
from harness.history import Hold, assert_clean
from harness.porcupine import compared
from harness.worker import Pending, Worker, first_answered

ROUNDS = 10
"""Number of holds of each owner per command. It is small, so commands complete soon after the time is up."""

HOLD_MS = (0.0, 2.0)
REPORT = 5.0
"""Interval in seconds between two lines of progress."""


@dataclass(frozen=True)
class Part:
    """One worker's share of a soak: the kind of lock, and the number of concurrent owners."""

    worker: Worker
    kind: str = "mutex"
    owners: int = 2
    permits: int | None = None

    def ask(self, path: str) -> Pending:
        """Let the worker contend for `ROUNDS` rounds."""
        return self.worker.contend(
            path,
            kind=self.kind,
            owners=self.owners,
            rounds=ROUNDS,
            permits=self.permits,
            hold_ms=HOLD_MS,
        )


def soak(parts: Sequence[Part], path: str, length: float) -> list[Hold]:
    """Contend for `length` seconds, and print progress and a line per worker. Assert a clean history."""
    started = time.monotonic()
    reported = started
    asked = {part.ask(path): part for part in parts}
    while asked:
        for pending in first_answered(asked):
            part = asked.pop(pending)
            pending.expect("done")
            if time.monotonic() < started + length:
                asked[part.ask(path)] = part
        if time.monotonic() > reported + REPORT:
            reported = time.monotonic()
            grants = sum(line["event"] == "held" for worker in _workers(parts) for line in worker.history)
            print(f"{reported - started:6.1f} s: {grants} grants", flush=True)
    holds = [hold for worker in _workers(parts) for hold in worker.holds()]
    _sum_up(holds, time.monotonic() - started)
    assert_clean(holds, at_least=sum(part.owners * ROUNDS for part in parts))
    comparison = compared(History("soak", tuple(holds)))
    print(comparison, flush=True)
    assert not comparison.problems, comparison.problems
    return holds


def _workers(parts: Sequence[Part]) -> list[Worker]:
    return list({part.worker.name: part.worker for part in parts}.values())


def _sum_up(holds: Sequence[Hold], took: float) -> None:
    waits: dict[str, list[int]] = defaultdict(list)
    for hold in holds:
        if hold.asked is not None:
            waits[hold.worker].append(hold.granted - hold.asked)
    for worker, waited in waits.items():
        print(f"  {worker:12} {len(waited):6} grants, longest wait {max(waited) / 1e9:.3f} s")
    longest = max((max(waited) for waited in waits.values()), default=0) / 1e9
    print(f"{len(holds)} grants in {took:.1f} s, longest wait {longest:.3f} s", flush=True)
