"""The results of a run as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from locks.measure import Result
from locks.peers import BENCHES, PEERS
from locks.worker import Counted
from locks.workloads import WORKLOADS

SCHEMA = 2
RESULTS = BENCHES / "results"

QUIET = 0.9
"""The machine counts as busy if less than this share of the processors' time was idle before the run."""

Json = dict[str, Any]


def idle(seconds: float = 3.0) -> float:
    """Measure the idle share of the processors' time. Unlike the load average, it does not include earlier
    load.
    """

    def times() -> list[int]:
        return [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]

    before = times()
    time.sleep(seconds)
    spent = [after - one for one, after in zip(before, times(), strict=True)]
    # The fourth field is idle time, and the fifth is time spent waiting for a disk.
    return round((spent[3] + spent[4]) / max(sum(spent), 1), 3)


def machine() -> Json:
    """Describe the machine."""
    cpu, memory = "unknown", 0.0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            memory = int(line.split()[1]) / 2**20
    return {
        "processor": cpu,
        "processors": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def pooled(turns: list[Counted]) -> float | None:
    """Return the rate per second over all turns, or None if no pair was completed."""
    count = sum(turn.count for turn in turns)
    return count / sum(turn.seconds for turn in turns) if count else None


def entry(result: Result) -> Json:
    """Return the results of one peer at one workload."""
    (workload,) = (one for one in WORKLOADS if one.name == result.workload)
    told: Json = {"workload": result.workload, "peer": result.peer, "unit": workload.unit}
    if result.problem:
        return told | {"problem": result.problem}
    # A turn without a completed pair has no figure.
    rates = [turn.rate for turn in result.turns if turn.count > 0]
    overall = pooled(result.turns)
    if not rates or overall is None:
        return told | {"problem": "nothing ended within a turn"}
    trip = None
    if workload.delayed:
        bare = pooled(result.bare)
        if bare is None:
            return told | {"problem": "the round trip beside it could not be measured"}
        trip = 1 / bare
        told["round_trip_ms"] = rounded(trip * 1e3)
    figures = [workload.figure(rate, trip) for rate in rates]
    # Compute the figure of a workload with a network delay from all turns together. One turn has time for
    # only a few dozen pairs, so its own figure is imprecise.
    figure = workload.figure(overall, trip) if workload.delayed else median(figures)
    told |= {"figure": rounded(figure), "low": rounded(min(figures)), "high": rounded(max(figures))}
    told["turns"] = [rounded(one) for one in figures]
    if result.used is not None and result.used.count > 0 and workload.unit == "1/s":
        told["processor_us"] = {
            "worker": rounded(result.used.worker / result.used.count * 1e6),
            "server": rounded(result.used.server / result.used.count * 1e6),
        }
    if result.traffic is not None and result.traffic.count > 0:
        count = result.traffic.count
        requests = result.traffic.requests
        told["traffic"] = {
            "counted": count,
            "requests": {op: rounded(number / count) for op, number in sorted(requests.items())},
            "total": rounded(sum(requests.values()) / count),
            "bytes_sent": rounded(result.traffic.sent / count),
            "bytes_received": rounded(result.traffic.received / count),
        }
    return told


def rounded(value: float) -> float:
    """Round to four significant digits, because further digits would be noise."""
    return float(f"{value:.4g}")


def document(
    results: Iterable[Result],
    *,
    command: str,
    idle_before: float,
    server: str,
    skipped: Mapping[str, str],
    seconds: float,
) -> Json:
    """Return the results of the whole run."""
    results = list(results)
    versions = {result.peer: result.version for result in results if result.version}
    now = datetime.datetime.now(datetime.UTC)
    return {
        "schema": SCHEMA,
        "made": now.isoformat(timespec="seconds"),
        "command": command,
        "seconds": round(seconds),
        "machine": machine() | {"idle_before": idle_before},
        "server": server,
        "versions": {peer.name: versions[peer.name] for peer in PEERS if peer.name in versions},
        "skipped": dict(skipped),
        "results": [entry(result) for result in results],
    }


def write(told: Json, name: str) -> Path:
    """Write a run's results, replacing those with the same name."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> Json:
    """Read results."""
    told: Json = json.loads(path.read_text())
    if told["schema"] != SCHEMA:
        raise ValueError(f"{path} has schema {told['schema']}, not {SCHEMA}")
    return told


class Table:
    """Figures by workload and peer."""

    def __init__(self, told: Json) -> None:
        self.told = told
        self._entries = {(one["workload"], one["peer"]): one for one in told["results"]}

    def entry(self, workload: str, peer: str) -> Json | None:
        """Return a result with figures, or None."""
        found = self._entries.get((workload, peer))
        return found if found is not None and "figure" in found else None

    def figure(self, workload: str, peer: str) -> float | None:
        """Return the figure. For rates this is the median of the turns."""
        found = self.entry(workload, peer)
        return None if found is None else float(found["figure"])

    def requests(self, workload: str, peer: str) -> float | None:
        """Return the server's requests for one acquire with its release."""
        found = self.entry(workload, peer)
        return None if found is None or "traffic" not in found else float(found["traffic"]["total"])

    def processor(self, workload: str, peer: str) -> tuple[float, float] | None:
        """Return the processor time of client and server per acquire and release, in microseconds."""
        found = self.entry(workload, peer)
        if found is None or "processor_us" not in found:
            return None
        return float(found["processor_us"]["worker"]), float(found["processor_us"]["server"])

    def ratio(self, workload: str, peer: str, to: str) -> float | None:
        """Return the factor by which one peer is faster than another: the ratio of rates, or the inverse
        ratio of times.
        """
        ours, theirs = self.entry(workload, peer), self.entry(workload, to)
        if ours is None or theirs is None:
            return None
        quotient = float(ours["figure"]) / float(theirs["figure"])
        return quotient if ours["unit"] == "1/s" else 1 / quotient
