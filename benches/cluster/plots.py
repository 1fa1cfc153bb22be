"""Draws a plot of each case: latency by percentile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from cluster.results import Table
from cluster.workloads import ALL_PEERS, Case
from locks.plots import LINES, STYLE, save

TICKS = (50, 90, 99, 99.9)

# The lines of the peers that the other benchmark does not draw. The lines of the plain client are dotted.
MORE = {
    "raw": ("#7f7f7f", "x", ":"),
    "relay": ("#000000", "+", ":"),
    "lookahead": ("#7f7f7f", "*", ":"),
    "etcd": ("#0072b2", "P", "-."),
    "postgres": ("#009e73", "X", "-."),
}


def name(case: Case) -> str:
    """Return the file name of a case's plot."""
    return f"{case.name}.svg"


def _plot(table: Table, case: Case) -> Any:
    figure = Figure(figsize=(8, 4.8))
    axes = figure.subplots()
    latency, last = case.latencies[0], TICKS[1]
    for peer in ALL_PEERS:
        found = table.distribution(case, peer.name, latency)
        if found is None:
            continue
        upper = [(one, value) for one, value in found["curve"] if one >= TICKS[0]]
        curve = [(1 / (1 - one / 100), value) for one, value in upper]
        if not curve:
            continue
        last = max(last, 100 - 100 / curve[-1][0])
        colour, mark, line = (LINES | MORE)[peer.name]
        places, values = zip(*curve, strict=True)
        every = max(len(curve) // 6, 1)
        (drawn,) = axes.plot(places, values, marker=mark, markevery=every, linestyle=line, color=colour)
        drawn.set(label=peer.shown, markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    shown = [tick for tick in TICKS if tick <= last]
    axes.set_xticks([1 / (1 - tick / 100) for tick in shown], [f"{tick:g} %" for tick in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("percentile")
    axes.set_ylabel(f"{latency.replace('handoff', 'hand-off')} in milliseconds (less is better)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small", frameon=False, handlelength=3
    )
    return figure


def draw(table: Table, directory: Path, digest: str) -> None:
    """Draw the plots of all cases with results."""
    directory.mkdir(exist_ok=True)
    for old in directory.glob("*.svg"):
        old.unlink()
    with mpl.rc_context(STYLE):
        for case in table.cases:
            save(_plot(table, case), directory / name(case), digest)
