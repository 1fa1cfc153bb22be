"""What happened, as the processes tell it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from harness.history import Hold


class What(StrEnum):
    """What a process did, or what befell it."""

    WAITS = "waits"
    HOLDS = "holds"
    # Printed before the release.
    RELEASES = "releases"
    # Seen from outside: it was killed, or it ended.
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
    """A program printed what is no event."""


def parse(lane: int, line: str) -> Event:
    """Reads `TIME waits`, `TIME holds NODE TOKEN` or `TIME releases`."""
    match line.split():
        case [at, "holds", node, token]:
            return Event(lane, int(at), What.HOLDS, node, int(token))
        case [at, "waits" | "releases" as what]:
            return Event(lane, int(at), What(what))
    raise NotUnderstood(f"not an event: {line.strip()!r}")


class Record:
    """The events of all processes. Those of one process are in their order; any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        """Notes an event."""
        with self._lock:
            self._events.append(event)

    def events(self) -> list[Event]:
        """All events so far, in the order in which they became known."""
        with self._lock:
            return list(self._events)


def of_lane(events: Iterable[Event], lane: int) -> list[Event]:
    """The events of one process, in the order of time."""
    return sorted((event for event in events if event.lane == lane), key=lambda event: event.at)


def holds(events: Sequence[Event], path: str, names: Sequence[str]) -> list[Hold]:
    """What each process certainly held, for the checker of the tests (harness/history.py)."""
    found = []
    for lane, name in enumerate(names):
        asked = None
        own = of_lane(events, lane)
        # What follows a grant ends it: the release, or the end of the process.
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
