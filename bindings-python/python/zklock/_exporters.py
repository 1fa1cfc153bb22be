"""The metrics of clients that all exporters export: names, help texts and values."""

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
    "acquisitions": "Holds that began.",
    "contended": "Those of them that had to wait for another contender.",
    "handoffs": "Acquisitions that were handed on within the client, without a request.",
    "retakes": "Acquisitions that took a node again that the client had kept, without a request.",
    "busy": "Tries that found the lock taken, and acquires that `max_waiters` refused.",
    "timeouts": "Attempts that timed out.",
    "sessions": "Sessions that began.",
    "reconnections": "Connections that were lost and replaced within a session.",
}
LOSSES: Final = "Holds that were lost, except by closing the client."
REQUESTS: Final = "Requests for locks."

STATES: Final = ("idle", "connecting", "connected", "suspended", "closed", "forked")
STATE: Final = "1 for the state that the client is in, 0 for the others."
RESPONSIVE: Final = "1 if the library's thread could be looked at, else 0."

# Gauges in seconds, and gauges that count current waiters and holds.
SECONDS: Final[Mapping[str, tuple[Callable[[Health], float], str]]] = {
    "term_remaining": (
        lambda health: health.remaining,
        "What is left of the session's term, after which its leases are lost; 0 if it does not run.",
    ),
    "oldest_wait": (
        lambda health: _oldest(health.waits),
        "How long the oldest of the attempts has waited; 0 without any.",
    ),
    "oldest_hold": (
        lambda health: _oldest(health.holds),
        "How long the oldest of the holds has lasted; 0 without any.",
    ),
}
REPORTS: Final[Mapping[str, tuple[Callable[[Health], Reports], str]]] = {
    "waiters": (lambda health: health.waits, "Attempts that wait for a lock now."),
    "holders": (lambda health: health.holds, "Holds now."),
}


def by_name(clients: AnyClient | Mapping[str, AnyClient]) -> dict[str, AnyClient]:
    """Return the clients by name. A single client without a name has an empty one."""
    return dict(clients) if isinstance(clients, Mapping) else {"": clients}


def by_mode(reports: Reports, path: Callable[[str], str] | None) -> Counter[tuple[str, str | None]]:
    """Count the reports by mode, and by the label that `path` returns for the lock's path."""
    return Counter((one.mode, path(one.path) if path else None) for one in reports)


def _oldest(reports: Reports) -> float:
    return max((one.age for one in reports), default=0.0)
