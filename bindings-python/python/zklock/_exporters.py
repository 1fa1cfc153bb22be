"""The metrics that every exporter exports for each client: names, help texts and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from zklock import Client, Health, HoldReport, WaitReport
from zklock import aio as _aio

AnyClient: TypeAlias = Client | _aio.Client
Reports: TypeAlias = Sequence[WaitReport] | Sequence[HoldReport]

# Counters with a single value, by the name of their field in `Stats`.
COUNTS: Final = {
    "acquisitions": "Number of holds that began.",
    "contended": "Number of acquisitions that had to wait for another contender.",
    "handoffs": "Number of acquisitions that another holder in this client handed on, without a request.",
    "retakes": "Number of acquisitions that reused a node that the client had kept, without a request.",
    "busy": "Number of acquires that did not wait and found the lock taken, or that `max_waiters` refused.",
    "timeouts": "Number of acquires that timed out.",
    "sessions": "Number of sessions that began.",
    "reconnections": "Number of connections that were lost and replaced within a session.",
}
LOSSES: Final = "Number of holds that were lost, except by closing the client."
REQUESTS: Final = "Number of requests for locks."

STATES: Final = ("idle", "connecting", "connected", "suspended", "closed", "forked")
STATE: Final = "1 for the current state of the client, 0 for all other states."
RESPONSIVE: Final = "1 if the library's thread answered, else 0."

# Gauges in seconds, and gauges that count current waiters and holds.
SECONDS: Final[Mapping[str, tuple[Callable[[Health], float], str]]] = {
    "term_remaining": (
        lambda health: health.remaining,
        "Remaining time of the session's term. At its end, the leases are lost. 0 if no term is running.",
    ),
    "oldest_wait": (
        lambda health: _oldest(health.waits),
        "Time that the oldest pending acquire has waited; 0 if there is none.",
    ),
    "oldest_hold": (
        lambda health: _oldest(health.holds),
        "Age of the oldest hold; 0 if there is none.",
    ),
}
REPORTS: Final[Mapping[str, tuple[Callable[[Health], Reports], str]]] = {
    "waiters": (lambda health: health.waits, "Number of acquires that are waiting for a lock."),
    "holders": (lambda health: health.holds, "Number of current holds."),
}


def by_name(clients: AnyClient | Mapping[str, AnyClient]) -> dict[str, AnyClient]:
    """Return the clients by name. A single client that is passed without a name gets the name `""`."""
    return dict(clients) if isinstance(clients, Mapping) else {"": clients}


def by_mode(reports: Reports, path: Callable[[str], str] | None) -> Counter[tuple[str, str | None]]:
    """Count the reports by mode, and by the label that `path` returns for the lock's path."""
    return Counter((one.mode, path(one.path) if path else None) for one in reports)


def _oldest(reports: Reports) -> float:
    return max((one.age for one in reports), default=0.0)
