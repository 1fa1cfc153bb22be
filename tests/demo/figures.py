"""Summarizes a run in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from demo.timeline import Kind, Timeline

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Figures:
    """Numbers for the summary and the picture. Times are in seconds."""

    grants: tuple[int, ...]
    # Longest wait of each lane, including waits that did not end.
    longest_wait: tuple[float, ...]
    handoffs: int
    # Median of the handoffs by a release; None if there were none.
    typical_handoff: float | None
    # Time from the kill to the next grant; None without a kill or a later grant.
    after_kill: float | None


def figures(timeline: Timeline) -> Figures:
    """Compute the numbers of a run."""
    lanes = range(len(timeline.lanes))
    released = [one.took for one in timeline.handoffs if not one.by_expiry]
    expired = [one.took for one in timeline.handoffs if one.by_expiry]
    return Figures(
        grants=tuple(len(timeline.of(Kind.HOLDS, lane)) for lane in lanes),
        longest_wait=tuple(
            max((bar.length for bar in timeline.of(Kind.WAITS, lane)), default=0) / SECOND for lane in lanes
        ),
        handoffs=len(timeline.handoffs),
        typical_handoff=median(released) / SECOND if released else None,
        after_kill=max(expired) / SECOND if expired else None,
    )


def _so_many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def sentence(counted: Figures, overlaps: int) -> str:
    """Return the summary in one line."""
    parts = [_so_many(sum(counted.grants), "hold"), _so_many(overlaps, "overlap")]
    parts.append(_so_many(counted.handoffs, "hand-off"))
    if counted.typical_handoff is not None:
        parts[-1] += f", typically in {counted.typical_handoff * 1000:.1f} ms"
    if counted.after_kill is not None:
        parts.append(f"{counted.after_kill:.1f} s from the kill to the next holder")
    return "; ".join(parts)
