"""Converts events to bars for a terminal or a picture. Pure, so that tests can call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from demo.record import Event, What, of_lane


class Kind(Enum):
    """Kind of a bar."""

    WAITS = "waits"
    HOLDS = "holds"
    # The holder was killed, and its session has not expired yet.
    ORPHANED = "orphaned"


@dataclass(frozen=True)
class Bar:
    """A span of time in one lane, in nanoseconds since the start."""

    lane: int
    kind: Kind
    start: int
    end: int
    token: int | None = None
    # For a hold: the time at which the process started the acquire. It can be negative.
    asked: int | None = None
    # True if the span had not ended at the end of the picture.
    open: bool = False

    @property
    def length(self) -> int:
        """Duration in nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Handoff:
    """The time from the end of one hold to the grant of a process that was already waiting."""

    giver: int
    taker: int
    given: int
    taken: int
    # True if the holder was killed and its session expired.
    by_expiry: bool = False

    @property
    def took(self) -> int:
        """Time without a holder in nanoseconds."""
        return self.taken - self.given


@dataclass(frozen=True)
class Kill:
    """A process that was killed."""

    lane: int
    at: int


@dataclass(frozen=True)
class Timeline:
    """A run, or the part of a run so far."""

    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    handoffs: tuple[Handoff, ...]
    kills: tuple[Kill, ...]
    # Nanoseconds from the start to the end.
    span: int

    def of(self, kind: Kind, lane: int | None = None) -> list[Bar]:
        """Return the bars of one kind, of one lane or of all lanes, in order of time."""
        found = [bar for bar in self.bars if bar.kind is kind and lane in (None, bar.lane)]
        return sorted(found, key=lambda bar: bar.start)


@dataclass
class _Open:
    """The current activity of a process, while its events are read."""

    kind: Kind
    since: int
    asked: int | None = None
    token: int | None = None


def _stretches(events: Iterable[Event], lane: int, until: int) -> tuple[list[Bar], list[Kill]]:
    """Return the bars of one process in clock time, and its kill."""
    bars: list[Bar] = []
    kills: list[Kill] = []
    doing: _Open | None = None

    def close(at: int, *, going_on: bool = False) -> None:
        nonlocal doing
        if doing is not None:
            bars.append(Bar(lane, doing.kind, doing.since, at, doing.token, doing.asked, going_on))
        doing = None

    for event in of_lane(events, lane):
        held = doing if doing is not None and doing.kind is Kind.HOLDS else None
        waited = doing.since if doing is not None and doing.kind is Kind.WAITS else None
        # Every event ends the previous activity.
        close(event.at)
        match event.what:
            case What.WAITS if not kills:
                doing = _Open(Kind.WAITS, event.at)
            case What.HOLDS if not kills:
                doing = _Open(Kind.HOLDS, event.at, waited, event.token)
            case What.KILLED:
                kills.append(Kill(lane, event.at))
                if held is not None:
                    doing = _Open(Kind.ORPHANED, event.at, held.asked, held.token)
            case _:
                # The end of an activity, or output between the kill and the exit of the process.
                pass
    close(until, going_on=True)
    return bars, kills


def _expired(bar: Bar, bars: Iterable[Bar]) -> Bar:
    """End an orphaned bar at the next grant: by then, its session had expired."""
    following = [other.start for other in bars if other.kind is Kind.HOLDS and other.start >= bar.start]
    # The bar has already ended if its holder released the lock just before it was killed.
    if bar.kind is not Kind.ORPHANED or not bar.open or not following:
        return bar
    return Bar(bar.lane, bar.kind, bar.start, min(following), bar.token, bar.asked)


def _handoffs(bars: Iterable[Bar]) -> list[Handoff]:
    """Return each grant to a process that waited before the lock was free."""
    had = [bar for bar in bars if bar.kind is not Kind.WAITS]
    found = []
    for taker in had:
        givers = [bar for bar in had if bar is not taker and not bar.open and bar.end <= taker.start]
        if taker.kind is not Kind.HOLDS or taker.asked is None or not givers:
            continue
        giver = max(givers, key=lambda bar: bar.end)
        orphaned = giver.kind is Kind.ORPHANED
        given = giver.start if orphaned else giver.end
        if taker.asked <= giver.end:
            found.append(Handoff(giver.lane, taker.lane, given, taker.start, orphaned))
    return found


def _moved(bar: Bar, start: int) -> Bar:
    asked = None if bar.asked is None else bar.asked - start
    return Bar(bar.lane, bar.kind, max(bar.start - start, 0), bar.end - start, bar.token, asked, bar.open)


def layout(events: Sequence[Event], lanes: Sequence[str], start: int, now: int) -> Timeline:
    """Build the timeline from `start` to `now`.

    A wait that began before `start` is clipped. A bar that has not ended by `now` ends there and stays open.
    After the hold of a killed process, an orphaned bar lasts until the next grant, because its session
    outlives it.
    """
    known = [event for event in events if event.at <= now]
    stretches = [_stretches(known, lane, now) for lane in range(len(lanes))]
    bars = [bar for some, _ in stretches for bar in some]
    bars = [_expired(bar, bars) for bar in bars]
    handoffs = _handoffs(bars)
    return Timeline(
        lanes=tuple(lanes),
        bars=tuple(_moved(bar, start) for bar in bars if bar.end > start),
        handoffs=tuple(
            Handoff(one.giver, one.taker, one.given - start, one.taken - start, one.by_expiry)
            for one in sorted(handoffs, key=lambda one: one.taken)
            if one.given >= start
        ),
        kills=tuple(
            Kill(kill.lane, kill.at - start) for _, some in stretches for kill in some if kill.at >= start
        ),
        span=max(now - start, 1),
    )
