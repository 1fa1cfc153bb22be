"""The figures of docs/performance.md, from results.

Everything between two marks of the page is generated; a test of the suite compares it with the JSON.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from locks.results import Json, Table
from locks.shown import DESIGNS, OTHERS, OURS, SHOWN, THEIRS, TITLES

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "performance.md"
PICTURES = PAGE.parent / "performance"
BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"


def digest(told: Json) -> str:
    """What the plots name as their source: the results without the time at which they were made."""
    return hashlib.sha256(json.dumps(told["results"], sort_keys=True).encode()).hexdigest()[:16]


def grid(table: Table, names: tuple[str, ...], peers: tuple[str, ...], *, spread: bool = False) -> str:
    """Medians by workload and peer; what nobody did is left out."""
    peers = tuple(peer for peer in peers if any(table.entry(name, peer) for name in names))
    if not peers:
        return "Not measured in this run."
    lines = ["| | " + " | ".join(SHOWN[peer] for peer in peers) + " |", "|---" + "|---:" * len(peers) + "|"]
    for name in names:
        entries = [table.entry(name, peer) for peer in peers]
        if not any(entries):
            continue
        cells = []
        for entry in entries:
            cell = "" if entry is None else number(entry["median"])
            if entry is not None and spread:
                cell += f" ({number(entry['low'])} to {number(entry['high'])})"
            cells.append(cell)
        lines.append(f"| {TITLES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number(value: float) -> str:
    """As people read it: no more than three or four digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def run(table: Table) -> str:
    """What was measured, where and with what."""
    told = table.told
    machine = told["machine"]
    load = ", ".join(f"{one:g}" for one in machine["load_average"])
    lines = [
        f"`{told['command']}`, {told['made'][:10]}, {told['seconds']} s. {machine['processors']} processors",
        f"({machine['processor']}), {machine['memory_gib']:g} GiB, {machine['system']}. {told['server']}.",
    ]
    if machine["loaded"]:
        lines.append(
            f"\n**The machine was busy with other work** (load average {load} before the run): absolute\n"
            "figures mean nothing, and ratios little. A run on a quiet machine is to replace this one."
        )
    else:
        lines.append(f"Load average {load} before the run.")
    versions = "; ".join(f"{SHOWN[peer]}: {version}" for peer, version in told["versions"].items())
    return "\n".join(lines) + "\n\n" + wrapped(f"Versions: {versions}.")


def wrapped(text: str) -> str:
    """A paragraph in lines of the page's width."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= 118:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def names(*prefixes: str) -> tuple[str, ...]:
    """The workloads whose names begin so, in order."""
    return tuple(name for name in TITLES if name.startswith(prefixes))


DIRECT = ("free", "threads", "clients", "each", "readers", "semaphore", "try", "reenter")


def better(table: Table) -> str:
    """Where another ZooKeeper recipe is faster than the best of ours, or than one of ours."""
    lines = []
    for name, title in TITLES.items():
        for peer in THEIRS:
            for ours in OURS:
                ratio = table.ratio(name, ours, peer)
                if ratio is not None and ratio < 1:
                    lines.append(f"| {title} | {SHOWN[peer]} | {SHOWN[ours]} | {1 / ratio:.2f} |")
    if not lines:
        return "None in this run."
    return "\n".join(["| | better | than | times as fast |", "|---|---|---|---:|", *lines])


def requests(table: Table) -> str:
    """The server's requests for each acquire with its release, and the bytes."""
    lines = ["| | | requests | of which | bytes to the server | from it |", "|---|---|---:|---|---:|---:|"]
    for name in ("free", "wait-100", "wait-2000"):
        for peer in (*OURS, *THEIRS, *DESIGNS):
            entry = table.entry(name, peer)
            if entry is None or "traffic" not in entry:
                continue
            traffic = entry["traffic"]
            most = sorted(traffic["requests"].items(), key=lambda item: -item[1])[:4]
            parts = ", ".join(f"{op} {number(count)}" for op, count in most if count >= 0.01)
            cells = [number(traffic[one]) for one in ("total", "bytes_sent", "bytes_received")]
            cells.insert(1, parts)
            lines.append("| " + " | ".join([TITLES[name].split(" (")[0], SHOWN[peer], *cells]) + " |")
    return "\n".join(lines)


def figures(told: Json) -> dict[str, str]:
    """Each generated part of the page, by its name."""
    table = Table(told)
    return {
        "run": run(table),
        "rates": grid(table, (*DIRECT, *names("wait-", "held-")), (*OURS, *THEIRS, "raw")),
        "trips": grid(
            table, tuple(name for name in TITLES if name.endswith("10ms")), (*OURS, *THEIRS, "raw")
        ),
        "others": grid(table, ("free", "clients", "try", "wait-100"), ("rust", "curator", *DESIGNS, *OTHERS)),
        "spread": grid(
            table, ("free", "threads", "clients"), ("rust", "python", "node", "curator"), spread=True
        ),
        "requests": requests(table),
        "better": better(table),
    }


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with its generated parts renewed."""
    for name, text in parts.items():
        begin = BEGIN.format(name)
        head, rest = page.split(begin)
        _, tail = rest.split(END, 1)
        page = f"{head}{begin}\n\n{text}\n\n{END}{tail}"
    return page
