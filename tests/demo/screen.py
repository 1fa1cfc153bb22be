"""Shows the run in a terminal: drawn live, or as plain lines if the terminal cannot redraw."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo import colours
from demo.cells import Cells, cells
from demo.figures import SECOND, Figures
from demo.timeline import Kind, Timeline

LABEL = 16
WIDEST = 140
SIGNS = {Kind.WAITS: "─", Kind.HOLDS: "█", Kind.ORPHANED: "▒", None: " "}
KILL = "✗"


def redraws(console: Console, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the screen can be redrawn: it is a terminal, and no variable asks for plain text."""
    return console.is_terminal and not any(environment.get(name) for name in ("NO_COLOR", "CI"))


def _lock(shown: Cells) -> Text:
    row = Text("the lock".ljust(LABEL), style="bold")
    for column in shown.lock:
        if column is None:
            row.append(" ")
        elif column.kind is Kind.ORPHANED:
            row.append(SIGNS[column.kind], style=colours.ALARM.terminal)
        else:
            # A half block marks the start of a new hold.
            row.append("▐" if column.begins else "█", style=colours.of(column.lane).terminal)
    return row


def _lane(shown: Cells, lane: int, title: str) -> Text:
    colour = colours.of(lane).terminal
    row = Text(title[: LABEL - 1].ljust(LABEL), style=f"bold {colour}")
    for column, kind in enumerate(shown.lanes[lane]):
        if shown.kills.get(lane) == column:
            row.append(KILL, style=f"bold {colours.ALARM.terminal}")
        else:
            style = colours.ALARM.terminal if kind is Kind.ORPHANED else colour
            row.append(SIGNS[kind], style=f"dim {style}" if kind is Kind.WAITS else style)
    return row


def axis(columns: int, total: int) -> str:
    """Return the axis with labels in seconds, as many as fit."""
    row = [" "] * columns
    width = total / columns
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if step * SECOND / width >= 5)
    for second in range(0, int(total / SECOND) + 1, step):
        at = int(second * SECOND / width)
        label = f"{second}" if second else "0 s"
        if at + len(label) <= columns:
            row[at : at + len(label)] = label
    return "".join(row)


def chart(timeline: Timeline, width: int, total: int) -> Group:
    """Return the whole drawing for a screen of this width and a run of about `total` nanoseconds."""
    columns = max(min(width, WIDEST) - LABEL, 10)
    total = max(total, timeline.span)
    shown = cells(timeline, columns, total)
    legend = Text("█ holds  ─ waits  ▐ handed on  ", style="dim")
    legend.append(f"{KILL} killed", style=colours.ALARM.terminal)
    legend.append("  ▒ its session, until it expires", style="dim")
    rows = [_lane(shown, lane, title) for lane, title in enumerate(timeline.lanes)]
    return Group(_lock(shown), *rows, Text(" " * LABEL + axis(columns, total), style="dim"), legend)


class Screen:
    """Shows a run while it is in progress."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._live: Live | None = None
        self._told = 0
        if redraws(console):
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()

    def show(self, timeline: Timeline) -> None:
        """Show the current state."""
        lines = event_lines(timeline)
        if self._live is not None:
            drawn = chart(timeline, self._console.width, self._total)
            self._live.update(Group(drawn, *lines[-1:]), refresh=True)
            return
        for line in lines[self._told :]:
            self._console.print(line, soft_wrap=True)
        self._told = len(lines)

    def close(self, timeline: Timeline) -> None:
        """Show the final state, and stop redrawing."""
        self.show(timeline)
        if self._live is not None:
            self._live.stop()
        else:
            self._console.print(chart(timeline, self._console.width, timeline.span))


def event_lines(timeline: Timeline) -> list[str]:
    """Return the run as lines in order of time: the grants and the kills."""
    lines = []
    for bar in timeline.of(Kind.HOLDS):
        waited = "" if bar.asked is None else f", after {(bar.start - bar.asked) / SECOND:.2f} s"
        lines.append((bar.start, bar.lane, f"holds, with fencing token {bar.token}{waited}"))
    lines += [(kill.at, kill.lane, "is killed with SIGKILL while it holds") for kill in timeline.kills]
    return [
        f"{at / SECOND:6.2f} s  {timeline.lanes[lane]:<{LABEL}}{what}" for at, lane, what in sorted(lines)
    ]


def summary(lanes: Sequence[str], counted: Figures) -> Table:
    """Return the results of each process as a table."""
    table = Table()
    table.add_column("process")
    table.add_column("grants", justify="right")
    table.add_column("longest wait", justify="right")
    for lane, title in enumerate(lanes):
        style = colours.of(lane).terminal
        wait = f"{counted.longest_wait[lane]:.2f} s"
        table.add_row(title, str(counted.grants[lane]), wait, style=style)
    return table
