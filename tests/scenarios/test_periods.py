"""S842: a job runs once per period, although the clocks of the processes differ."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from harness.history import assert_clean
from harness.nemesis.wallclock import WallClock
from harness.observer import Observer
from harness.server import Standalone
from harness.worker import Worker

HOUR = 3600.0
PERIODS = 4
SKEWS = (-1200.0, 0.0, 1200.0)
"""Offsets of the schedulers' clocks in seconds. All clocks show a time within the same period."""

OWNERS = 3
"""Number of jobs of each scheduler that ask at the same time."""
JITTER = 0.02


@dataclass(frozen=True)
class Scheduler:
    """A process with its own clock that asks to run its job."""

    worker: Worker
    clock: WallClock
    skew: float

    def show(self, period: int) -> None:
        """Set the process's clock to the middle of this period, plus its skew."""
        self.clock.step((period + 0.5) * HOUR + self.skew - time.time())


@contextmanager
def schedulers(surface: str, server: Standalone) -> Iterator[list[Scheduler]]:
    """Provide several schedulers, which are closed after the test."""
    with ExitStack() as stack:
        made = []
        for skew in SKEWS:
            clock = WallClock()
            stack.callback(clock.close)
            worker = stack.enter_context(Worker(surface, env=clock.env))
            worker.connect(server.hosts)
            made.append(Scheduler(worker, clock, skew))
        yield made


def ask(some: Sequence[Scheduler], path: str, chance: random.Random) -> dict[int, int]:
    """Let all jobs try to run in random order.

    Return the number of runs by process ID, for each process that ran.
    """
    asked = [(scheduler.worker, owner) for scheduler in some for owner in range(OWNERS)]
    chance.shuffle(asked)
    pending = []
    for worker, owner in asked:
        time.sleep(chance.uniform(0, JITTER))
        job = {"client": "c", "path": path, "owner": f"job-{owner}", "hold_ms": [0, 5]}
        pending.append((worker.pid, worker.send("once", period=HOUR, **job)))
    ran: Counter[int] = Counter()
    for pid, answer in pending:
        ran[pid] += answer.expect("done")["count"]
    return dict(+ran)


def recorded(observer: Observer, path: str) -> tuple[dict[str, Any], int]:
    """Return the record of the lock and its version."""
    data, stat = observer.client.get(f"{path}.once")
    return json.loads(data), stat.version


def test_s842_one_run_per_period(surface: str, server: Standalone, observer: Observer, path: str) -> None:
    chance, first = random.Random(842), int(time.time() // HOUR)
    with schedulers(surface, server) as some:
        for number in range(PERIODS):
            for scheduler in some:
                scheduler.show(first + number)
            ran = ask(some, path, chance)
            assert list(ran.values()) == [1], ran
            record, version = recorded(observer, path)
            assert (record["per"], record["n"]) == (HOUR * 1000, first + number)
            assert [record["by"]["pid"]] == list(ran)
            assert version == number, "one record per period"
        holds = [hold for scheduler in some for hold in scheduler.worker.holds()]
        assert_clean(holds, at_least=PERIODS)
        assert len(holds) == PERIODS
    observer.assert_free(path)


def test_s842_a_clock_that_is_set_back(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    chance, first = random.Random(843), int(time.time() // HOUR)
    with schedulers(surface, server) as some:
        behind, *others = some
        for scheduler in some:
            scheduler.show(first)
        assert list(ask(some, path, chance).values()) == [1]
        before = recorded(observer, path)
        # One clock goes back by one period, and then by 100 periods. The other clocks stay the same.
        for back in (1, 100):
            behind.show(first - back)
            assert ask(some, path, chance) == {}
            assert recorded(observer, path) == before
        for scheduler in others:
            scheduler.show(first + 1)
        behind.show(first)
        (winner,) = ask(some, path, chance)
        assert winner != behind.worker.pid
        assert ask([behind], path, chance) == {}
        assert recorded(observer, path)[0]["n"] == first + 1
        # All clocks go back. No job runs until a clock has passed the recorded period again.
        for scheduler in some:
            scheduler.show(first - 1)
        assert ask(some, path, chance) == {}
        behind.show(first + 2)
        assert ask([behind], path, chance) == {behind.worker.pid: 1}
        record, version = recorded(observer, path)
        assert (record["n"], version) == (first + 2, 2)
    observer.assert_free(path)
