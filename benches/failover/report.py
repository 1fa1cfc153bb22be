"""Generates the figures and the plot of docs/failover.md from the results."""

from __future__ import annotations

from pathlib import Path

from failover.samples import EVENTS, HOLDER, LEADER, PATIENCE, SERVER, Json, of, summary
from locks.programs import OURS, PROGRAMS
from locks.report import hardware, heading, quietness, wrapped
from locks.results import RESULTS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "failover.md"
PICTURES = PAGE.parent / "failover"
PLOT = "grants.svg"
PUBLISHED = RESULTS / "failover.json"


def peers(samples: list[Json]) -> list[str]:
    """Return the measured peers in the order of the table of programs."""
    found = {one["peer"] for one in samples}
    return [name for name in PROGRAMS if name in found]


def _times(samples: list[Json], field: str) -> str:
    """Return the median and the worst time. A lock that no contender acquired is worse than each time."""
    known = summary(samples, field)
    shown = [] if known is None else [f"{known[0]:.2f} ({known[1]:.2f})"]
    missing = sum(field not in one for one in samples)
    if missing and field == "grant":
        shown.append(f"{missing} of {len(samples)} stuck")
    return ", ".join(shown)


def run(told: Json) -> str:
    """Describe the run."""
    machine = told["machine"]
    text = (
        f"`{told['command']}`, {told['day']}, {told['seconds']:,} s, {told['repetitions']} kills of each "
        f"kind. {hardware(machine)}. Three servers of Apache ZooKeeper 3.9.5 with fsync. A write took "
        f"{told['commit_ms']:.2g} ms. Session timeout *T* = {told['session_timeout']:g} s, tick "
        f"{told['tick_ms']} ms. {quietness(machine)}"
    )
    skipped = [f"Not measured: {PROGRAMS[peer].shown}: {why}." for peer, why in told["skipped"].items()]
    return "\n\n".join(wrapped(one) for one in (text, *skipped))


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


def sizing(told: Json) -> str:
    """Return the figures of zklock that a user needs to choose the session timeout."""
    ours = [one for one in told["samples"] if one["peer"] in OURS]
    granted = {
        event: [one["grant"] for one in ours if one["event"] == event and "grant" in one] for event in EVENTS
    }
    if not all(granted.values()):
        return "Not measured in this run."
    after, timeout = granted[HOLDER], told["session_timeout"]
    text = (
        f"After the kill of a holder, the next contender of zklock got the lock in {min(after):.1f} to "
        f"{max(after):.1f} s, which is {min(after) / timeout:.2f} to {max(after) / timeout:.2f} *T*. No lock "
        f"was granted for up to {max(granted[LEADER]):.1f} s after the kill of the leader, and for up to "
        f"{max(granted[SERVER]):.1f} s after the kill of a follower."
    )
    if stuck := sum("grant" not in one for one in ours):
        text += f" **After {stuck} of {len(ours)} kills, no lock was granted within {PATIENCE:g} s.**"
    return wrapped(text)


def figures(told: Json) -> dict[str, str]:
    """Return the generated parts of the page."""
    picture = f"![Times of all kills]({PICTURES.name}/{PLOT})"
    return {"run": run(told), "table": table(told), "plot": picture, "sizing": sizing(told)}
