"""Metrics of clients for Prometheus; needs `pip install 'pyzklock[prometheus]'`.

>>> from prometheus_client import REGISTRY
>>> from zklock.prometheus import Collector
>>> REGISTRY.register(Collector(client))

Everything is read when Prometheus scrapes, and costs nothing before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector as _Collector

from zklock import Client, Histogram
from zklock import aio as _aio

__all__ = ["Collector"]

_STATES = ("idle", "connecting", "connected", "suspended", "closed", "forked")
_COUNTS = {
    "acquisitions": "Holds that began.",
    "contended": "Those of them that had to wait for another contender.",
    "busy": "Tries that found the lock taken.",
    "timeouts": "Attempts that timed out.",
    "sessions": "Sessions that began.",
    "reconnections": "Connections that were lost and replaced within a session.",
}


class Collector(_Collector):
    """Collects the statistics and the health of a client, or of several under names of your choice.

    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> registry.register(Collector(client))
    >>> registry.get_sample_value("zklock_holders", {"client": "", "mode": "mutex", "path": ""})
    0

    Give a mapping of names to clients to tell several apart by the label `client`. Paths are in the label
    `path` of `zklock_waiters` and `zklock_holders` only if `path` says how: a function from a lock's path
    to the value of the label, which should have few values. One that returns the path itself makes a
    series for every lock that is used.

    >>> Collector({"reports": client}, path=lambda path: path.rpartition("/")[0] + "/*")
    <zklock.prometheus.Collector of 1 clients>
    """

    def __init__(
        self,
        clients: Client | _aio.Client | Mapping[str, Client | _aio.Client],
        *,
        path: Callable[[str], str] | None = None,
    ) -> None:
        self._clients = dict(clients) if isinstance(clients, Mapping) else {"": clients}
        self._path = path or (lambda _: "")

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is told, in its own classes.

        >>> sorted(metric.name for metric in Collector(client).collect())[:2]
        ['zklock_acquisitions', 'zklock_busy']
        """
        stats = {name: client.stats() for name, client in self._clients.items()}
        for field, text in _COUNTS.items():
            counter = CounterMetricFamily(f"zklock_{field}", text, labels=["client"])
            for name, numbers in stats.items():
                counter.add_metric([name], getattr(numbers, field))
            yield counter
        losses = CounterMetricFamily(
            "zklock_losses",
            "Holds that were lost, except by closing the client.",
            labels=["client", "reason"],
        )
        requests = CounterMetricFamily("zklock_requests", "Requests for locks.", labels=["client", "kind"])
        wait = HistogramMetricFamily(
            "zklock_wait_seconds",
            "How long the acquisitions took, from the call to the grant.",
            labels=["client"],
        )
        hold = HistogramMetricFamily(
            "zklock_hold_seconds", "How long the holds that have ended lasted.", labels=["client"]
        )
        for name, numbers in stats.items():
            for reason, count in numbers.losses_by_reason.items():
                losses.add_metric([name, reason], count)
            for kind, count in numbers.requests.items():
                requests.add_metric([name, kind], count)
            wait.add_metric([name], _buckets(numbers.wait), numbers.wait.sum)
            hold.add_metric([name], _buckets(numbers.hold), numbers.hold.sum)
        yield from (losses, requests, wait, hold)
        yield from self._health()

    def _health(self) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "zklock_state",
            "1 for the state that the client is in, 0 for the others.",
            labels=["client", "state"],
        )
        remaining = GaugeMetricFamily(
            "zklock_term_remaining_seconds",
            "What is left of the session's term, after which its leases are lost; 0 if it does not run.",
            labels=["client"],
        )
        responsive = GaugeMetricFamily(
            "zklock_responsive", "1 if the library's thread could be looked at, else 0.", labels=["client"]
        )
        labels = ["client", "mode", "path"]
        waiters = GaugeMetricFamily("zklock_waiters", "Attempts that wait for a lock now.", labels=labels)
        holders = GaugeMetricFamily("zklock_holders", "Holds now.", labels=labels)
        oldest_wait = GaugeMetricFamily(
            "zklock_oldest_wait_seconds",
            "How long the oldest of the attempts has waited; 0 without any.",
            labels=["client"],
        )
        oldest_hold = GaugeMetricFamily(
            "zklock_oldest_hold_seconds",
            "How long the oldest of the holds has lasted; 0 without any.",
            labels=["client"],
        )
        for name, client in self._clients.items():
            health = client.health()
            for one in _STATES:
                state.add_metric([name, one], float(one == health.state))
            remaining.add_metric([name], health.remaining)
            responsive.add_metric([name], float(health.responsive))
            oldest_wait.add_metric([name], max((wait.age for wait in health.waits), default=0.0))
            oldest_hold.add_metric([name], max((hold.age for hold in health.holds), default=0.0))
            for family, reports in ((waiters, health.waits), (holders, health.holds)):
                counts = Counter((one.mode, self._path(one.path)) for one in reports)
                # Without any there is a zero: no series at all would mean that nobody was asked.
                counts = counts or Counter({("mutex", ""): 0})
                for (mode, path), count in counts.items():
                    family.add_metric([name, mode, path], count)
        yield from (state, remaining, responsive, oldest_wait, oldest_hold, waiters, holders)

    def __repr__(self) -> str:
        return f"<zklock.prometheus.Collector of {len(self._clients)} clients>"


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """As Prometheus wants them: the bounds as text, and the whole at the end."""
    buckets = [(str(bound), float(count)) for bound, count in histogram.buckets]
    return [*buckets, ("+Inf", float(histogram.count))]
