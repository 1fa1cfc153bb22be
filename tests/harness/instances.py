"""Runs several instances of a program with different clocks, and counts the runs of each slot.

A slot is one period of the program's schedule, e.g. a day or a second.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

from harness.answers import now
from harness.nemesis.wallclock import WallClock
from harness.observer import Observer
from harness.processes import reap, spawn
from harness.stalls import STALL_MONITOR
from harness.steps import eventually

DAY = 24 * 3600
INSTANCES = 3
APART = 0.15
"""Offset in seconds between the clocks of two instances. It is longer than a run of the job."""

START = 60.0
"""Timeout in seconds for a program to start and run its first slots."""


class Instances:
    """Processes that append a line to a shared file for each run of their job."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.processes: list[Popen[bytes]] = []

    def lines(self) -> list[str]:
        """Return the lines that all instances have printed."""
        return self._file.read_text().splitlines()

    def wait_lines(self, count: int) -> None:
        """Wait until the file has at least `count` lines."""
        eventually(lambda: len(self.lines()) >= count, f"{count} lines: {self.lines()}", START)

    def wait(self) -> None:
        """Wait until all processes have exited with status 0."""
        assert [process.wait(START) for process in self.processes] == [0] * len(self.processes), self.lines()

    def end(self) -> None:
        """Send SIGTERM to all processes, and wait until they exit."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(20)


@contextmanager
def instances(
    command: Sequence[str],
    file: Path,
    env: Mapping[str, str],
    *,
    cwd: Path | None = None,
    ahead: float = 0,
) -> Iterator[Instances]:
    """Run several instances of a program.

    Each instance's clock is `APART` seconds ahead of the previous one's.
    """
    made = Instances(file)
    with ExitStack() as stack:
        output = stack.enter_context(file.open("ab"))
        for number in range(INSTANCES):
            clock = WallClock()
            stack.callback(clock.close)
            clock.step(ahead + number * APART)
            process = spawn(command, env={**env, **clock.env}, stdout=output, cwd=cwd)
            stack.callback(reap, process)
            made.processes.append(process)
        yield made


def three_o_clock(night: int) -> float:
    """Return the number of seconds from now until 3:00 UTC, `night` days from today."""
    return 3 * 3600 - time.time() % DAY + night * DAY


class Records:
    """The slots that a lock's record has named, read through a watch."""

    def __init__(self, observer: Observer, path: str) -> None:
        self.slots: list[int] = []
        self.tokens: list[str] = []
        self.written = 0
        """Number of times the record was written."""
        observer.client.DataWatch(f"{path}.once", self._changed)
        self._began = now()

    def _changed(self, data: bytes | None, stat: object) -> None:
        if data is None:
            return
        record = json.loads(data)
        self.slots.append(record["n"])
        self.tokens.append(record["token"])
        self.written = getattr(stat, "version", 0) + 1

    def assert_once_each(self, lines: Sequence[str]) -> None:
        """Assert that each slot ran exactly once. Each line of output ends with the token of a run."""
        printed = [line.split()[-1] for line in lines]
        eventually(lambda: self.written >= len(printed), f"{self.written} records of {len(printed)} runs")
        assert len(printed) == len(set(printed)) == self.written, (printed, self.tokens)
        # `self.tokens` can be incomplete: a watch misses a change if another change follows immediately.
        assert set(self.tokens) <= set(printed), (printed, self.tokens)
        assert self.slots == sorted(set(self.slots)), self.slots
        missing = self.slots[-1] - self.slots[0] + 1 - self.written
        assert missing <= STALL_MONITOR.stalled_seconds(self._began, now()), self.slots


def assert_more_than_once(lines: Callable[[], Sequence[str]], runs: int) -> None:
    """Assert that instances that do not record their slots run some one-second slots more than once.

    There must be `runs` runs in fewer than `runs` slots.
    """
    eventually(lambda: len(lines()) >= 1, "a first run", START)
    began, first = now(), len(lines())
    eventually(lambda: len(lines()) >= first + runs, f"{runs} runs", START)
    ended = now()
    slots = (ended - began) / 1e9 - STALL_MONITOR.stalled_seconds(began, ended) + 1
    assert runs > slots, f"{runs} runs in {slots} slots"
