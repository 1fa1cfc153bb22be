"""The results of a run as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from hdrh.histogram import HdrHistogram

from cluster.measure import Result
from cluster.workloads import ALL_PEERS, CASES, Case
from locks.results import RESULTS, Json, machine, pooled, rounded, write

__all__ = ["RESULTS", "Json", "Table", "document", "read", "write"]

SCHEMA = 2

PERCENTILES = (50, 90, 99)
RARE, ENOUGH = 99.9, 10_000
"""A rare percentile, and the number of samples that it needs."""

POINTS = 60
"""Number of points of a distribution."""


def axis(samples: int) -> list[float]:
    """Return the percentiles of a distribution, from 0 to the last one that these samples can show. The
    distance to 100 % shrinks by the same factor from one to the next, as on the axis of the plots.
    """
    last = 1 / max(min(samples, ENOUGH), 2)
    return [100 * (1 - last ** (step / (POINTS - 1))) for step in range(POINTS)]


def distribution(histogram: HdrHistogram) -> Json:
    """Return the percentiles of a histogram, in milliseconds."""
    samples = histogram.get_total_count()
    told: Json = {"samples": samples}
    if samples == 0:
        return told
    for percentile in (*PERCENTILES, *((RARE,) if samples >= ENOUGH else ())):
        told[f"p{percentile:g}"] = milliseconds(histogram, percentile)
    told["max"] = rounded(histogram.get_max_value() / 1000)
    told["curve"] = [[round(one, 3), milliseconds(histogram, one)] for one in axis(samples)]
    return told


def milliseconds(histogram: HdrHistogram, percentile: float) -> float:
    """Return a percentile in milliseconds."""
    return rounded(histogram.get_value_at_percentile(percentile) / 1000)


def entry(result: Result) -> Json:
    """Return the results of one peer in one case."""
    case = result.case
    told: Json = {"workload": case.workload.name, "delay_ms": case.delay_ms, "peer": result.peer}
    rate = pooled(result.turns)
    if result.problem or rate is None:
        return told | {"problem": result.problem or "nothing ended within a turn"}
    count = result.used.count
    told["rate"] = rounded(rate)
    told["turns"] = len(result.turns)
    told["repeated"] = result.repeated
    told["latencies"] = {name: distribution(result.histogram(name)) for name in case.latencies}
    told["bytes"] = {"sent": rounded(result.sent / count), "received": rounded(result.received / count)}
    told["processor_us"] = {
        "worker": rounded(result.used.worker / count * 1e6),
        "servers": rounded(result.used.server / count * 1e6),
    }
    if result.traffic is not None and result.traffic.count > 0:
        requests, pairs = result.traffic.requests, result.traffic.count
        told["requests"] = {op: rounded(number / pairs) for op, number in sorted(requests.items())}
        told["requests_total"] = rounded(sum(requests.values()) / pairs)
    return told


def document(
    results: Iterable[Result],
    *,
    command: str,
    idle_before: float,
    server: str,
    fsync_ms: float,
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
        "machine": machine() | {"idle_before": idle_before, "fsync_ms": fsync_ms},
        "server": server,
        "versions": {peer.name: versions[peer.name] for peer in ALL_PEERS if peer.name in versions},
        "skipped": dict(skipped),
        "results": [entry(result) for result in results],
    }


def read(path: Path) -> Json:
    """Read results."""
    told: Json = json.loads(path.read_text())
    if told["schema"] != SCHEMA:
        raise ValueError(f"{path} has schema {told['schema']}, not {SCHEMA}")
    return told


class Table:
    """Results by case and peer."""

    def __init__(self, told: Json) -> None:
        self.told = told
        self._entries = {(one["workload"], one["delay_ms"], one["peer"]): one for one in told["results"]}

    @property
    def cases(self) -> list[Case]:
        """Return the cases with results."""
        found = {key[:2] for key, one in self._entries.items() if "rate" in one}
        return [case for case in CASES if (case.workload.name, case.delay_ms) in found]

    def entry(self, case: Case, peer: str) -> Json | None:
        """Return the results of a peer, or None."""
        found = self._entries.get((case.workload.name, case.delay_ms, peer))
        return found if found is not None and "rate" in found else None

    def distribution(self, case: Case, peer: str, latency: str) -> Json | None:
        """Return the distribution of a latency, or None if it has no samples."""
        found = self.entry(case, peer)
        told: Json = {} if found is None else found["latencies"].get(latency, {})
        return told if told.get("samples") else None

    def percentile(self, case: Case, peer: str, latency: str, percentile: str) -> float | None:
        """Return a percentile such as `p99` in milliseconds, or None."""
        found = self.distribution(case, peer, latency)
        return None if found is None or percentile not in found else float(found[percentile])

    def ratio(self, case: Case, peer: str, to: str, latency: str, percentile: str) -> float | None:
        """Return the percentile of one peer divided by that of another one."""
        ours = self.percentile(case, peer, latency, percentile)
        theirs = self.percentile(case, to, latency, percentile)
        return None if ours is None or not theirs else ours / theirs
