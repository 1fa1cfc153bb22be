"""Converts a timeline to characters: the content of each lane in each column of a terminal. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from demo.timeline import Bar, Kind, Timeline

HAS_IT = (Kind.HOLDS, Kind.ORPHANED)


@dataclass(frozen=True)
class Column:
    """The lock in one column: its holder, the kind of bar, and whether the hold starts there."""

    lane: int
    kind: Kind
    begins: bool


@dataclass(frozen=True)
class Cells:
    """Rows of equal length: one for each lane, and one for the lock."""

    lanes: list[list[Kind | None]]
    lock: list[Column | None]
    # The column of each kill, by lane.
    kills: dict[int, int]


def _share(bar: Bar, left: float, right: float) -> float:
    return min(bar.end, right) - max(bar.start, left)


def cells(timeline: Timeline, columns: int, total: int) -> Cells:
    """Spread `total` nanoseconds over this many columns.

    A column is longer than a handoff, so two lanes can hold the lock within the same column. The column shows
    the lane that holds for longer. The other lane waits there, so the picture never suggests an overlap.
    """
    width = max(total, timeline.span) / columns
    lanes: list[list[Kind | None]] = [[None] * columns for _ in timeline.lanes]
    lock: list[Column | None] = [None] * columns
    had = [bar for bar in timeline.bars if bar.kind in HAS_IT]
    shown: set[Bar] = set()
    for column in range(columns):
        left, right = column * width, (column + 1) * width
        for bar in timeline.bars:
            if bar.kind is not Kind.ORPHANED and _share(bar, left, right) > 0:
                lanes[bar.lane][column] = Kind.WAITS
        foremost = max(had, key=lambda bar: _share(bar, left, right), default=None)
        if foremost is not None and _share(foremost, left, right) > 0:
            lanes[foremost.lane][column] = foremost.kind
            begins = foremost not in shown and foremost.kind is Kind.HOLDS
            lock[column] = Column(foremost.lane, foremost.kind, begins)
            shown.add(foremost)
    kills = {kill.lane: min(int(kill.at / width), columns - 1) for kill in timeline.kills}
    return Cells(lanes, lock, kills)
