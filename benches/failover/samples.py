"""The samples of the benchmark: one for each kill and peer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

Json = dict[str, Any]

TIMEOUT = 4.0
"""Session timeout of all peers, and time to live of etcd's leases, in seconds."""

BEATS = 3
"""Number of heartbeats that most clients send in a session timeout: kazoo, go-zookeeper, Curator, etcd."""

PATIENCE = 15.0
"""Seconds after which a lock that no contender has acquired counts as stuck."""

HOLDER, LEADER, SERVER = "holder", "leader", "server"
EVENTS = (HOLDER, LEADER, SERVER)


@dataclass
class Sample:
    """The consequences of a kill for one peer. Times are in seconds since the kill."""

    event: str
    peer: str
    number: int
    # The next grant. None if there was none.
    grant: float | None = None
    # True if the node of the lock that was held exists after the failure, and the lease was not lost.
    kept: bool | None = None
    # When the lease was held again. None if the library does not say.
    again: float | None = None

    def json(self) -> Json:
        """Return the sample for the results."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
            if value is not None
        }


def offset(number: int, repetitions: int) -> float:
    """Return the time of a kill within a heartbeat's interval, in seconds.

    The kills are spread evenly, because the server counts a session's timeout from its last heartbeat. Their
    order alternates, so that no slow drift of the machine's speed looks like an effect of the phase.
    """
    step = next(one for one in (7, 3, 1) if repetitions % one or one == 1)
    return (number * step % repetitions + 0.5) / repetitions * TIMEOUT / BEATS


def longest_gap(grants: list[int], killed: int, until: int) -> float | None:
    """Return the time from a kill to the end of the longest gap between grants that follow it, in seconds.

    Stamps are in nanoseconds. A grant that follows immediately can have been on its way before the kill.
    Return None if there is no grant after the kill, or if the longest gap has not ended.
    """
    after = sorted(grant for grant in grants if grant >= killed)
    if not after:
        return None
    stamps = [killed, *after]
    gaps = [(later - earlier, later) for earlier, later in zip(stamps, after, strict=False)]
    length, end = max(gaps)
    return None if until - after[-1] > length else (end - killed) / 1e9


def of(samples: list[Json], event: str, peer: str) -> list[Json]:
    """Return the samples of an event and a peer."""
    return [one for one in samples if (one["event"], one["peer"]) == (event, peer)]


def summary(samples: list[Json], field: str) -> tuple[float, float] | None:
    """Return the median and the worst of the known times, or None."""
    known = [one[field] for one in samples if field in one]
    return (median(known), max(known)) if known else None
