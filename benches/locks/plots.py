"""Draws two plots as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from locks.peers import PEERS
from locks.results import Table
from locks.shown import DESIGNS, OURS, THEIRS

WAITERS = (10, 100, 500, 2000)

# Colors that people with color blindness can distinguish (Okabe and Ito's), and a marker for each line, so
# that no line depends on its color alone. zklock's lines are solid, those of other recipes are dashed, and
# those of the classic designs are dotted.
LINES = {
    "rust": ("#d55e00", "o", "-"),
    "python": ("#0072b2", "s", "-"),
    "asyncio": ("#56b4e9", "D", "-"),
    "node": ("#009e73", "^", "-"),
    "curator": ("#cc79a7", "v", "--"),
    "kazoo": ("#000000", "<", "--"),
    "go": ("#e69f00", ">", "--"),
    "recipe": ("#7f7f7f", "P", "--"),
    "queue": ("#000000", "x", ":"),
    "herd": ("#0072b2", "*", ":"),
    "spin": ("#cc79a7", "+", ":"),
}
NAMES = {peer.name: peer.shown for peer in PEERS} | {"herd": "watch one node (herd)"}

Curve = list[tuple[int, float]]

# These settings make the output reproducible: no random ids, and text is stored as text.
STYLE: dict[str, Any] = {
    "svg.hashsalt": "zklock",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Without a background color, the plots are unreadable in the site's dark mode.
    "savefig.facecolor": "white",
}


def save(figure: Any, path: Path, digest: str) -> None:
    """Write a figure with the digest of the results that it shows."""
    metadata = {"Date": None, "Creator": None, "Description": f"results {digest}"}
    figure.savefig(path, format="svg", metadata=metadata, bbox_inches="tight")
    # Editors strip the spaces that the writer leaves at line ends.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _curve(table: Table, peer: str, value: str) -> Curve:
    told = table.requests if value == "requests" else table.figure
    points = [(number, told(f"wait-{number}", peer)) for number in WAITERS]
    return [(number, point) for number, point in points if point is not None]


def _same(one: Curve, other: Curve) -> bool:
    """Return whether the curves coincide at every point of `other`, which can have fewer points."""
    known = dict(one)
    return all(abs(known.get(number, 0.0) - value) < 0.03 * value for number, value in other)


def _lines(table: Table, peers: tuple[str, ...], value: str, label: str) -> Any:
    figure = Figure(figsize=(8, 4.8))
    axes = figure.subplots()
    drawn: dict[str, Curve] = {}
    named: dict[str, list[str]] = {}
    for peer in peers:
        if curve := _curve(table, peer, value):
            first = next((one for one, other in drawn.items() if _same(other, curve)), peer)
            drawn.setdefault(first, curve)
            named.setdefault(first, []).append(NAMES[peer])
    for peer, curve in drawn.items():
        colour, mark, line = LINES[peer]
        numbers, values = zip(*curve, strict=True)
        axes.plot(numbers, values, marker=mark, linestyle=line, color=colour, label=",\n".join(named[peer]))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(WAITERS, [f"{number:,}" for number in WAITERS])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("contenders for one lock, on 10 clients (10) or 20 (100 and more)")
    axes.set_ylabel(label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small", frameon=False, handlelength=3
    )
    return figure


def draw(table: Table, directory: Path, digest: str) -> None:
    """Draw all plots. Each contains the digest of the results that it shows."""
    directory.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        rates = _lines(table, (*OURS, *THEIRS, *DESIGNS), "rate", "hand-offs per second (more is better)")
        save(rates, directory / "throughput.svg", digest)
        requests = _lines(
            table,
            (*OURS, "queue", *THEIRS, "herd", "spin"),
            "requests",
            "server requests per release (fewer is better)",
        )
        save(requests, directory / "requests.svg", digest)
