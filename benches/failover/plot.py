"""Draws a strip plot as SVG: a point for each kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from failover.samples import EVENTS, HOLDER, LEADER, SERVER, Json, digest, of
from locks.plots import LINES, STYLE, save
from locks.programs import PROGRAMS

TITLES = {
    HOLDER: "the holder's process is killed",
    LEADER: "the leader is killed",
    SERVER: "the server of the holder's client is killed",
}


def _strip(axes: Any, samples: list[Json], event: str, peers: list[str], timeout: float) -> None:
    for place, peer in enumerate(peers):
        grants = [one["grant"] for one in of(samples, event, peer) if "grant" in one]
        # Spread the points over the strip in the order of the kills, so that equal times stay visible.
        heights = [place + 0.6 * ((number + 0.5) / len(grants) - 0.5) for number in range(len(grants))]
        colour, mark, _ = LINES.get(peer, ("#7f7f7f", "o", "-"))
        axes.plot(grants, heights, linestyle="none", marker=mark, color=colour, markersize=4, alpha=0.8)
    if event == HOLDER:
        axes.axvline(timeout, color="#7f7f7f", linestyle=":", linewidth=1)
    axes.set_yticks(range(len(peers)), [PROGRAMS[peer].shown for peer in peers])
    axes.set_ylim(len(peers) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_title(TITLES[event], loc="left", fontsize="medium")
    axes.grid(visible=True, axis="x", alpha=0.3)


def draw(told: Json, file: Path) -> None:
    """Draw the times of all kills, by event and peer."""
    file.parent.mkdir(exist_ok=True)
    samples = told["samples"]
    found = {one["peer"] for one in samples}
    peers = [name for name in PROGRAMS if name in found]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 7.5), layout="constrained")
        for axes, event in zip(figure.subplots(len(EVENTS), 1), EVENTS, strict=True):
            _strip(axes, samples, event, peers, told["session_timeout"])
        axes.set_xlabel("seconds from the kill to the next grant (less is better)")
        save(figure, file, digest(told))
