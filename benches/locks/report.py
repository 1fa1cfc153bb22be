"""Generates the figures of docs/performance.md and of the README from results.

The text between two markers of a page is generated. A test compares it with the JSON file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from locks.peers import PEERS
from locks.results import QUIET, Json, Table
from locks.shown import DESIGNS, OTHERS, OURS, SHOWN, THEIRS, TITLES, YARDSTICKS
from locks.weak import weak

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
PICTURES = PAGE.parent / "performance"
BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"

# Workloads for which processor time is reported.
SPENT = ("free", "threads", "clients", "each", "readers")
DIRECT = ("free", "threads", "clients", "each", "readers", "semaphore", "try", "reenter")
# The workloads and peers that the README compares.
FIRST = ("free-10ms", "handoff-10ms", "try-10ms", "free", "threads", "clients", "readers", "reenter")
BESIDE = (*OURS, "curator", "kazoo", "go", "redis", "postgres")


def digest(told: Json) -> str:
    """Return a digest of the results without the time of the run. The plots contain this digest, so that a
    test can check whether they show these results.
    """
    return hashlib.sha256(json.dumps(told["results"], sort_keys=True).encode()).hexdigest()[:16]


def grid(
    table: Table,
    names: tuple[str, ...],
    peers: tuple[str, ...],
    *,
    headings: Mapping[str, str] = SHOWN,
) -> str:
    """Return a table of figures by workload and peer. Rows and columns without figures are left out."""
    peers = tuple(peer for peer in peers if any(table.entry(name, peer) for name in names))
    if not peers:
        return "Not measured in this run."
    lines = heading(headings[peer] for peer in peers)
    for name in names:
        entries = [table.entry(name, peer) for peer in peers]
        if not any(entries):
            continue
        cells = ["" if entry is None else shown(entry) for entry in entries]
        lines.append(f"| {TITLES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def heading(columns: Iterable[str]) -> list[str]:
    """Return the header lines of a table with names in the first column and numbers in the others."""
    named = list(columns)
    return ["| | " + " | ".join(named) + " |", "|---" + "|---:" * len(named) + "|"]


def shown(entry: Json) -> str:
    """Format the figure of an entry. Numbers of round trips get one decimal, because they are precise to a
    tenth.
    """
    return f"{entry['figure']:.1f}" if entry["unit"] == "round trips" else number(entry["figure"])


def number(value: float) -> str:
    """Format a number with at most three or four digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def hardware(machine: Json) -> str:
    """Describe the machine's processors, memory and system."""
    processors = f"{machine['processors']} processors ({machine['processor']})"
    return f"{processors}, {machine['memory_gib']:g} GiB, {machine['system']}"


def quietness(machine: Json) -> str:
    """Return a sentence about the processors before the run, with a warning if they were busy."""
    idle = machine["idle_before"]
    text = f"Before the run, {round(idle * 100)} % of the processors' time was unused."
    if idle < QUIET:
        text += (
            " **The machine was busy with other work:** absolute figures are meaningless, and ratios are "
            "unreliable."
        )
    return text


def run(table: Table) -> str:
    """Describe the run: date, machine and versions."""
    told = table.told
    machine = told["machine"]
    text = (
        f"`{told['command']}`, {told['made'][:10]}, {told['seconds']:,} s. {hardware(machine)}. "
        f"{told['server']}."
    )
    if "idle_before" in machine:
        text += f" {quietness(machine)}"
    versions = "; ".join(f"{SHOWN[peer]}: {version}" for peer, version in told["versions"].items())
    skipped = [f"Not measured: {SHOWN[peer]}: {why}." for peer, why in told["skipped"].items()]
    return "\n\n".join(wrapped(one) for one in (text, f"Versions: {versions}.", *skipped))


def wrapped(text: str, indent: str = "") -> str:
    """Wrap a paragraph to the page's width."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= 118:
            lines[-1] += f" {word}"
        else:
            lines.append(indent * bool(lines) + word)
    return "\n".join(lines)


def names(*prefixes: str) -> tuple[str, ...]:
    """Return the workloads whose names begin with these prefixes, in order."""
    return tuple(name for name in TITLES if name.startswith(prefixes))


def faster(table: Table) -> Iterator[tuple[str, str, str, float]]:
    """Yield each case in which another ZooKeeper recipe is faster than one of ours, as a tuple: workload,
    other peer, our peer, factor.
    """
    for name in TITLES:
        for peer in THEIRS:
            for ours in OURS:
                ratio = table.ratio(name, ours, peer)
                if ratio is not None and ratio < 1:
                    yield name, peer, ours, 1 / ratio


def better(table: Table) -> str:
    """Return a table with one line for each case in which another peer is faster than one of ours."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, peer, ours, times in faster(table):
        found.setdefault((name, peer), []).append(f"{SHOWN[ours]} {number(times)}")
    lines = [
        f"| {TITLES[name]} | {SHOWN[peer]} | {', '.join(than)} |" for (name, peer), than in found.items()
    ]
    if not lines:
        return "None in this run."
    return "\n".join(["| | Faster library | Slower in zklock, by factor |", "|---|---|---|", *lines])


def processor(table: Table) -> str:
    """Return a table of the processor time of client and server per acquire and release."""
    all_peers = (*OURS, "curator", "kazoo", "go", *YARDSTICKS)
    peers = [peer for peer in all_peers if any(table.processor(name, peer) for name in SPENT)]
    if not peers:
        return "Not measured in this run."
    lines = heading(SHOWN[peer] for peer in peers)
    for name in SPENT:
        found = [table.processor(name, peer) for peer in peers]
        cells = ["" if one is None else " + ".join(number(part) for part in one) for one in found]
        lines.append("| " + " | ".join([TITLES[name].rpartition(" (")[0], *cells]) + " |")
    return "\n".join(lines)


def requests(table: Table) -> str:
    """Return a table of the number of requests and bytes per acquire and release."""
    lines = ["| | | requests | most frequent | bytes sent | bytes received |", "|---|---|---:|---|---:|---:|"]
    for name in ("free", "clients", "wait-2000"):
        for peer in ("rust", *THEIRS, *DESIGNS):
            entry = table.entry(name, peer)
            if entry is None or "traffic" not in entry:
                continue
            traffic = entry["traffic"]
            most = sorted(traffic["requests"].items(), key=lambda item: (-round(item[1], 1), item[0]))[:4]
            parts = ", ".join(f"{op} {number(count)}" for op, count in most if count >= 0.01)
            cells = [number(traffic[one]) for one in ("total", "bytes_sent", "bytes_received")]
            cells.insert(1, parts)
            lines.append("| " + " | ".join([TITLES[name].split(" (")[0], SHOWN[peer], *cells]) + " |")
    return "\n".join(lines)


def figures(told: Json) -> dict[Path, dict[str, str]]:
    """Return each generated part of each page, by name."""
    table = Table(told)
    bullets = [wrapped(f"* {text}", "  ") for text in weak(table)]
    return {
        README: {"peers": grid(table, FIRST, BESIDE, headings={peer.name: peer.shown for peer in PEERS})},
        PAGE: {
            "run": run(table),
            "rates": grid(table, (*DIRECT, *names("wait-", "held-")), (*OURS, *THEIRS, *YARDSTICKS)),
            "processor": processor(table),
            "others": grid(
                table,
                ("free", "clients", "try", "wait-100", "free-10ms", "handoff-10ms"),
                ("rust", "curator", *DESIGNS, *OTHERS),
            ),
            "requests": requests(table),
            "weak": "\n".join(bullets) or "None in this run.",
            "better": better(table),
        },
    }


def filled(page: str, parts: Mapping[str, str]) -> str:
    """Return a page with its generated parts replaced."""
    for name, text in parts.items():
        begin = BEGIN.format(name)
        head, rest = page.split(begin)
        _, tail = rest.split(END, 1)
        page = f"{head}{begin}\n\n{text}\n\n{END}{tail}"
    return page


def fill(page: Path, parts: Mapping[str, str]) -> None:
    """Write the generated parts of a page."""
    page.write_text(filled(page.read_text(), parts))


def publish(pages: Mapping[Path, Callable[[Path], None]]) -> None:
    """Call the function of each results file that exists. Print the names of the others."""
    for results, write in pages.items():
        if results.exists():
            write(results)
        else:
            print(f"{results.name} does not exist, so its page is not changed")
