"""The samples of the benchmark: one for each kill and peer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

Json = dict[str, Any]

TIMEOUT = 4.0
"""Session timeout of all peers, and time to live of etcd's leases, in seconds."""

BEATS = 3
"""Number of heartbeats that most clients send in a session timeout: kazoo, go-zookeeper, Curator, etcd."""

INTERVAL = TIMEOUT / BEATS
"""The longest interval between heartbeats in seconds. zklock's is half of it while it holds a lock."""

PATIENCE = 2.5 * TIMEOUT
"""Seconds after which a lock that no contender has acquired counts as stuck. A session that is lost at the
kill ends after the session timeout and at most two ticks. A client that notices this only then has as much
time again.
"""

STEADY = 1.0
"""Seconds since the longest gap between grants after which a fail-over counts as complete."""

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
    return (number * step % repetitions + 0.5) / repetitions * INTERVAL


def due(granted: float, after: float, now: float) -> float:
    """Return the next time that is `after` seconds and a whole number of intervals after a grant."""
    return granted + after + max(0, ceil((now - granted - after) / INTERVAL)) * INTERVAL


def _longest(grants: list[int], killed: int) -> tuple[int, int, int] | None:
    """Return the length and the end of the longest gap after a kill, and the last grant."""
    after = sorted(grant for grant in grants if grant >= killed)
    if not after:
        return None
    gaps = [(later - earlier, later) for earlier, later in pairwise([killed, *after])]
    return *max(gaps), after[-1]


def longest_gap(grants: list[int], killed: int, until: int) -> float | None:
    """Return the time from a kill to the end of the longest gap between grants that follow it, in seconds.

    Stamps are in nanoseconds. A grant that follows immediately can have been on its way before the kill.
    Return None if there is no grant after the kill, or if the longest gap has not ended.
    """
    if (found := _longest(grants, killed)) is None:
        return None
    length, end, last = found
    return None if until - last > length else (end - killed) / 1e9


def settled(grants: list[list[int]], killed: int, until: int) -> bool:
    """Return whether all contenders have been granted the lock after the longest gap, for `STEADY` seconds.

    `grants` contains the stamps of each contender.
    """
    if (found := _longest([one for several in grants for one in several], killed)) is None:
        return False
    length, end, last = found
    return (
        until - last <= length
        and until - end >= STEADY * 1e9
        and all(any(one >= end for one in several) for several in grants)
    )


def of(samples: list[Json], event: str, peer: str) -> list[Json]:
    """Return the samples of an event and a peer."""
    return [one for one in samples if (one["event"], one["peer"]) == (event, peer)]


def summary(samples: list[Json], field: str) -> tuple[float, float] | None:
    """Return the median and the worst of the known times, or None."""
    known = [one[field] for one in samples if field in one]
    return (median(known), max(known)) if known else None


def digest(told: Json) -> str:
    """Return a digest of the samples. The plot contains it, so that a test can check what the plot shows."""
    return hashlib.sha256(json.dumps(told["samples"], sort_keys=True).encode()).hexdigest()[:16]
