"""Generates the figures of docs/production.md from results.

The text between two markers of the page is generated. A test compares it with the JSON file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cluster.results import PERCENTILES, RARE, RESULTS, Json, Table
from cluster.workloads import ALL_PEERS, OURS, THEIRS, Case
from locks.report import ROOT, hardware, heading, number, quietness, wrapped

PAGE = ROOT / "docs" / "production.md"
PICTURES = PAGE.parent / "production"
PUBLISHED = RESULTS / "cluster.json"

NAMES = {peer.name: peer.shown.removeprefix("zklock, ") for peer in ALL_PEERS}
NAMED = {"acquire": "acquire", "release": "release", "handoff": "hand-off"}
SHOWN = tuple(f"p{percentile:g}" for percentile in (*PERCENTILES, RARE))

GOALS = {"p50": 1.1, "p99": 1.25}
"""Highest ratios to the plain client with the same requests that the project aims at."""


def run(table: Table) -> str:
    """Describe the run: date, machine and versions."""
    told = table.told
    machine = told["machine"]
    text = (
        f"`{told['command']}`, {told['made'][:10]}, {told['seconds']:,} s. {hardware(machine)}. "
        f"{told['server']}. Appending 4 KiB to a file and waiting for the disk took "
        f"{machine['fsync_ms']:.2g} ms. {quietness(machine)} {repeats(told)}"
    )
    versions = "; ".join(f"{NAMES[peer]}: {version}" for peer, version in told["versions"].items())
    skipped = [f"Not measured: {NAMES[peer]}: {why}." for peer, why in told["skipped"].items()]
    return "\n\n".join(wrapped(one) for one in (text, f"Versions: {versions}.", *skipped))


def repeats(told: Json) -> str:
    """Tell how many turns were repeated because the disk stalled."""
    entries = [one for one in told["results"] if "rate" in one]
    repeated, turns = (sum(one[name] for one in entries) for name in ("repeated", "turns"))
    return f"{repeated:,} of {turns + repeated:,} turns were repeated because the disk stalled."


def cases(table: Table) -> str:
    """Return the percentiles of all cases, with a plot of each."""
    return "\n\n".join(
        f"### {case.shown[0].upper()}{case.shown[1:]}\n\n{percentiles(table, case)}\n\n{picture(case)}"
        for case in table.cases
    )


def picture(case: Case) -> str:
    """Return the image of a case."""
    return f"![{NAMED[case.latencies[0]]} by percentile](production/{case.name}.svg)"


def percentiles(table: Table, case: Case) -> str:
    """Return a table of the percentiles of a case in milliseconds."""
    peers = [peer.name for peer in ALL_PEERS if table.entry(case, peer.name)]
    columns = [
        (latency, one)
        for latency in case.latencies
        for one in SHOWN
        if any(table.percentile(case, peer, latency, one) is not None for peer in peers)
    ]
    lines = heading([*(f"{NAMED[latency]} {one}" for latency, one in columns), "samples"])
    for peer in peers:
        values = [table.percentile(case, peer, latency, one) for latency, one in columns]
        cells = ["" if value is None else number(value) for value in values]
        found = table.distribution(case, peer, case.latencies[0])
        cells.append("0" if found is None else f"{found['samples']:,}")
        lines.append(f"| {NAMES[peer]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratios(table: Table) -> str:
    """Return a table of zklock's percentiles divided by those of the plain client with the same requests."""
    lines = heading([f"{NAMES[peer]} {one}" for peer in OURS for one in GOALS])
    for case in table.cases:
        if case.bare is None or table.entry(case, case.bare) is None:
            continue
        for latency in case.latencies:
            cells = []
            for peer in OURS:
                for one, goal in GOALS.items():
                    ratio = table.ratio(case, peer, case.bare, latency, one)
                    shown = "" if ratio is None else f"{ratio:.2f}"
                    cells.append(f"**{shown}**" if ratio is not None and ratio > goal else shown)
            lines.append(f"| {NAMED[latency]}, {case.shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "Not measured in this run."


class Better(NamedTuple):
    """A percentile at which another ZooKeeper library has a shorter latency than one of ours."""

    case: Case
    latency: str
    percentile: str
    peer: str
    ours: str
    factor: float


def better(table: Table) -> Iterator[Better]:
    """Yield each case in which another ZooKeeper library has a shorter latency than one of ours."""
    for case in table.cases:
        for latency in case.latencies:
            for one in SHOWN:
                for peer in THEIRS:
                    for ours in OURS:
                        ratio = table.ratio(case, ours, peer, latency, one)
                        if ratio is not None and ratio > 1:
                            yield Better(case, latency, one, peer, ours, ratio)


def faster(table: Table) -> str:
    """Return a table of the percentiles at which another ZooKeeper library is better than one of ours."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in better(table):
        key = one.case.shown, f"{NAMED[one.latency]} {one.percentile}", NAMES[one.peer]
        found.setdefault(key, []).append(f"{NAMES[one.ours]} {one.factor:.2f}")
    lines = [f"| {' | '.join(key)} | {', '.join(than)} |" for key, than in found.items()]
    if not lines:
        return "None in this run."
    head = ["| | Percentile | Shorter latency | Longer in zklock, by factor |", "|---|---|---|---|"]
    return "\n".join([*head, *lines])


def costs(table: Table) -> str:
    """Return a table of requests, bytes, processor time and rate."""
    columns = ("pairs/s", "requests", "bytes sent", "bytes received", "client µs", "servers µs")
    lines = ["| | | " + " | ".join(columns) + " |", "|---|---" + "|---:" * len(columns) + "|"]
    for case in table.cases:
        for peer in ALL_PEERS:
            if (entry := table.entry(case, peer.name)) is None:
                continue
            requests = entry.get("requests_total")
            values = [entry["rate"], requests, *entry["bytes"].values(), *entry["processor_us"].values()]
            cells = ["" if value is None else number(value) for value in values]
            lines.append("| " + " | ".join([case.shown, NAMES[peer.name], *cells]) + " |")
    return "\n".join(lines)


def figures(told: Json) -> dict[str, str]:
    """Return each generated part of the page, by name."""
    table = Table(told)
    return {
        "run": run(table),
        "cases": cases(table),
        "ratios": ratios(table),
        "better": faster(table),
        "costs": costs(table),
    }
