"""Three plots, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from locks.results import Table
from locks.shown import DESIGNS, OURS, SHOWN, THEIRS

WAITERS = (10, 100, 500, 2000)

# The same file for the same figures: no random names, and text as text.
STYLE: dict[str, Any] = {"svg.hashsalt": "zklock", "svg.fonttype": "none", "font.family": "sans-serif"}


def _save(figure: Any, path: Path, digest: str) -> None:
    metadata = {"Date": None, "Creator": None, "Description": f"results {digest}"}
    figure.savefig(path, format="svg", metadata=metadata, bbox_inches="tight")
    # Editors strip what the writer leaves at the ends of lines.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _latency(table: Table) -> Any:
    figure = Figure(figsize=(8, 3.6))
    axes = figure.subplots()
    peers = [peer for peer in (*OURS, *THEIRS) if table.entry("free-10ms", peer)]
    for offset, (name, label) in enumerate((("free-10ms", "free lock"), ("handoff-10ms", "hand-off"))):
        heights = [table.figure(name, peer) or 0.0 for peer in peers]
        places = [number + (offset - 0.5) * 0.38 for number in range(len(peers))]
        axes.bar_label(axes.bar(places, heights, 0.38, label=label), fmt="%.2g")
    axes.set_xticks(range(len(peers)), [SHOWN[peer] for peer in peers], rotation=20, ha="right")
    axes.set_ylabel("round trips")
    axes.legend()
    return figure


def _lines(table: Table, peers: tuple[str, ...], value: str, label: str) -> Any:
    figure = Figure(figsize=(8, 4.4))
    axes = figure.subplots()
    for peer in peers:
        told = table.requests if value == "requests" else table.figure
        points = [(number, told(f"wait-{number}", peer)) for number in WAITERS]
        known = [(number, point) for number, point in points if point is not None]
        if known:
            axes.plot([one for one, _ in known], [one for _, one in known], marker="o", label=SHOWN[peer])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(WAITERS, [f"{number:,}" for number in WAITERS])
    axes.set_xlabel("contenders for one lock")
    axes.set_ylabel(label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(ncols=2, fontsize="small")
    return figure


def draw(table: Table, directory: Path, digest: str) -> None:
    """Draw all of them; each names the results that it shows."""
    directory.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        _save(_latency(table), directory / "latency.svg", digest)
        rates = _lines(table, (*OURS, *THEIRS, *DESIGNS), "rate", "hand-offs per second")
        _save(rates, directory / "throughput.svg", digest)
        requests = _lines(table, ("rust", *DESIGNS, "curator"), "requests", "server requests per release")
        _save(requests, directory / "requests.svg", digest)
