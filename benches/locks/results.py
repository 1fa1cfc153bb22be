"""What a run leaves behind: one schema, in JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from locks.measure import Result
from locks.peers import BENCHES, PEERS
from locks.workloads import WORKLOADS

SCHEMA = 1
RESULTS = BENCHES / "results"

LOADED = 0.5
"""From how many other runnable processes on a machine counts as loaded."""

Json = dict[str, Any]


def machine(load: tuple[float, float, float]) -> Json:
    """What it ran on, and how busy that was before the run began."""
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
        "load_average": [round(one, 2) for one in load],
        "loaded": load[0] >= LOADED,
    }


def entry(result: Result) -> Json:
    """One peer at one workload."""
    (workload,) = (one for one in WORKLOADS if one.name == result.workload)
    told: Json = {"workload": result.workload, "peer": result.peer, "unit": workload.unit}
    if result.problem:
        return told | {"problem": result.problem}
    # A turn in which nothing ended has no figure but that.
    figures = [workload.figure(rate) for rate in result.rates if rate > 0]
    if not figures:
        return told | {"problem": "nothing ended within a turn"}
    told |= {"median": rounded(median(figures)), "low": rounded(min(figures)), "high": rounded(max(figures))}
    told["turns"] = [rounded(one) for one in figures]
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
    """Four significant digits: more would be noise."""
    return float(f"{value:.4g}")


def document(
    results: Iterable[Result],
    *,
    command: str,
    load: tuple[float, float, float],
    server: str,
    skipped: Mapping[str, str],
    seconds: float,
) -> Json:
    """The whole run."""
    results = list(results)
    versions = {result.peer: result.version for result in results if result.version}
    now = datetime.datetime.now(datetime.UTC)
    after = os.getloadavg()
    return {
        "schema": SCHEMA,
        "made": now.isoformat(timespec="seconds"),
        "command": command,
        "seconds": round(seconds),
        "machine": machine(load) | {"load_average_after": [round(one, 2) for one in after]},
        "server": server,
        "versions": {peer.name: versions[peer.name] for peer in PEERS if peer.name in versions},
        "skipped": dict(skipped),
        "results": [entry(result) for result in results],
    }


def write(told: Json, name: str) -> Path:
    """Write a run's results, in the place of the last one of this name."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> Json:
    """Results that were written."""
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
        """A result, if there is one with figures."""
        found = self._entries.get((workload, peer))
        return found if found is not None and "median" in found else None

    def figure(self, workload: str, peer: str) -> float | None:
        """The median."""
        found = self.entry(workload, peer)
        return None if found is None else float(found["median"])

    def requests(self, workload: str, peer: str) -> float | None:
        """The server's requests for one acquire with its release."""
        found = self.entry(workload, peer)
        return None if found is None or "traffic" not in found else float(found["traffic"]["total"])

    def ratio(self, workload: str, peer: str, to: str) -> float | None:
        """How many times as fast one peer is as another: of rates their ratio, of times its inverse."""
        ours, theirs = self.entry(workload, peer), self.entry(workload, to)
        if ours is None or theirs is None:
            return None
        quotient = float(ours["median"]) / float(theirs["median"])
        return quotient if ours["unit"] == "1/s" else 1 / quotient
