"""Generates the figures and the plot of docs/failover.md from the results."""

from __future__ import annotations

import json
from pathlib import Path

from failover.plot import draw
from failover.samples import EVENTS, Json, of, summary
from locks.programs import PROGRAMS
from locks.report import filled, heading, wrapped
from locks.results import RESULTS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "failover.md"
PICTURES = PAGE.parent / "failover"
PUBLISHED = RESULTS / "failover.json"


def peers(samples: list[Json]) -> list[str]:
    """Return the measured peers in the order of the table of programs."""
    found = {one["peer"] for one in samples}
    return [name for name in PROGRAMS if name in found]


def _times(samples: list[Json], field: str) -> str:
    """Return median and worst. A lock that no contender acquired is worse than each time."""
    if (known := summary(samples, field)) is None:
        return ""
    missing = len(samples) - sum(field in one for one in samples)
    stuck = f", {missing} of {len(samples)} stuck" if missing and field == "grant" else ""
    return f"{known[0]:.2f} ({known[1]:.2f}{stuck})"


def run(told: Json) -> str:
    """Describe the run."""
    text = (
        f"`{told['command']}`, {told['day']}, {told['seconds']:,} s, {told['repetitions']} kills of each "
        "kind. "
        f"Session timeout *T* = {told['session_timeout']:g} s, tick {told['tick_ms']} ms. A write took "
        f"{told['commit_ms']:.1f} ms."
    )
    return wrapped(text)


def table(told: Json) -> str:
    """Return the table of times in seconds: median, and the worst in parentheses."""
    more = ("leases kept", "held again")
    lines = heading(("holder killed", "leader killed", *more, "its server killed", *more))
    for peer in peers(told["samples"]):
        holder, leader, server = (of(told["samples"], event, peer) for event in EVENTS)
        cells = [_times(holder, "grant")]
        for samples in (leader, server):
            kept = f"{sum(bool(one.get('kept')) for one in samples)} of {len(samples)}" if samples else ""
            cells += [_times(samples, "grant"), kept, _times(samples, "again")]
        lines.append(f"| {PROGRAMS[peer].shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figures(told: Json) -> dict[str, str]:
    """Return the generated parts of the page."""
    return {"run": run(told), "table": table(told)}


def publish() -> None:
    """Write the figures into the page, and draw the plot."""
    told = json.loads(PUBLISHED.read_text())
    PAGE.write_text(filled(PAGE.read_text(), figures(told)))
    draw(told, PICTURES)


if __name__ == "__main__":
    publish()
