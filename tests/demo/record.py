"""Records the events that the processes report."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from harness.history import Hold


class What(StrEnum):
    """Kind of an event."""

    WAITS = "waits"
    HOLDS = "holds"
    # Printed before the release.
    RELEASES = "releases"
    # Observed from outside: the demo killed the process, or the process exited.
    KILLED = "killed"
    ENDED = "ended"


@dataclass(frozen=True)
class Event:
    """One line of one process."""

    lane: int
    # Nanoseconds on the clock that all processes of a machine share.
    at: int
    what: What
    node: str | None = None
    token: int | None = None


class NotUnderstood(ValueError):
    """A program printed a line that is no event."""


def parse(lane: int, line: str) -> Event:
    """Parse `TIME waits`, `TIME holds NODE TOKEN` or `TIME releases`."""
    match line.split():
        case [at, "holds", node, token]:
            return Event(lane, int(at), What.HOLDS, node, int(token))
        case [at, "waits" | "releases" as what]:
            return Event(lane, int(at), What(what))
    raise NotUnderstood(f"not an event: {line.strip()!r}")


class Record:
    """Events of all processes, in order for each process. Any thread can add and read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        """Record an event."""
        with self._lock:
            self._events.append(event)

    def events(self) -> list[Event]:
        """Return all events so far, in the order of recording."""
        with self._lock:
            return list(self._events)


def of_lane(events: Iterable[Event], lane: int) -> list[Event]:
    """Return the events of one process, in order of time."""
    return sorted((event for event in events if event.lane == lane), key=lambda event: event.at)


def holds(events: Sequence[Event], path: str, names: Sequence[str]) -> list[Hold]:
    """Return the certain holds of each process, for the checker of the tests (harness/history.py)."""
    found = []
    for lane, name in enumerate(names):
        asked = None
        own = of_lane(events, lane)
        # The event after a grant ends the hold: the release, or the end of the process.
        for event, following in pairwise([*own, None]):
            if event is None:
                continue
            if event.what is What.WAITS:
                asked = event.at
            elif event.what is What.HOLDS:
                found.append(
                    Hold(
                        path=path,
                        worker=name,
                        owner="main",
                        granted=event.at,
                        ended=following.at if following is not None else None,
                        node=event.node,
                        token=event.token,
                        asked=asked,
                    )
                )
    return found
