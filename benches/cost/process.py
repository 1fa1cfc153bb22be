"""Reads the size and the activity of a process from the operating system."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from locks.processor import status


@dataclass(frozen=True)
class Size:
    """The size of a process at one moment."""

    rss_kib: int
    # Resident memory, in which each shared page counts only in part.
    pss_kib: int
    # Resident memory that is not the content of a file: neither program code nor read-only data.
    anonymous_kib: int
    threads: int
    files: int


@dataclass(frozen=True)
class Activity:
    """Counters of each thread of a process."""

    at: float
    # Processor time in nanoseconds.
    processor: dict[str, int]
    # Number of voluntary context switches: the thread went to sleep, and was therefore woken.
    wakes: dict[str, int]


def size(pid: int) -> Size:
    """Measure the size of a process."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Size(status(pid, "VmRSS"), pss, status(pid, "RssAnon"), status(pid, "Threads"), files)


def activity(pid: int) -> Activity:
    """Read the counters of all threads."""
    processor, wakes = {}, {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread can exit at any time.
        with contextlib.suppress(OSError):
            processor[task.name] = int((task / "schedstat").read_text().split()[0])
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    wakes[task.name] = int(line.split()[1])
    return Activity(time.monotonic(), processor, wakes)


def _grown(before: dict[str, int], after: dict[str, int]) -> int:
    return sum(count - before.get(task, 0) for task, count in after.items())


def between(before: Activity, after: Activity, per: float) -> dict[str, float]:
    """Return processor time and wake-ups in each `per` seconds. Threads that have exited are not counted."""
    times = (after.at - before.at) / per
    return {
        "processor_us": round(_grown(before.processor, after.processor) / 1e3 / times, 1),
        "wakes": round(_grown(before.wakes, after.wakes) / times, 1),
    }


def collect_garbage(pid: int) -> None:
    """Run a full collection in a JVM."""
    subprocess.run(["jcmd", str(pid), "GC.run"], check=False, stdout=subprocess.DEVNULL)
