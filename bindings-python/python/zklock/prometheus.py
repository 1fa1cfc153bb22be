"""Metrics of clients for Prometheus. This module needs `pip install 'pyzklock[prometheus]'`.

>>> from prometheus_client import REGISTRY
>>> from zklock.prometheus import Collector
>>> REGISTRY.register(Collector(client))

All values are read when Prometheus scrapes them. There is no other cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector as _Collector

from zklock import Client, Histogram, _exporters
from zklock import aio as _aio

__all__ = ["Collector"]


class Collector(_Collector):
    """Collects the statistics and health of a client, or of several named clients.

    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> registry.register(Collector(client))
    >>> labels = {"client": "", "mode": "mutex", "path": ""}
    >>> registry.get_sample_value("zklock_holders", labels)
    0

    To distinguish several clients by the label `client`, pass a mapping from names to clients. `path` is a
    function that maps a lock's path to the label `path` of `zklock_waiters` and `zklock_holders`. It should
    return few different values: a function that returns the path itself creates a series for every lock.
    Without `path` the label is empty.

    >>> Collector({"reports": client}, path=lambda path: path.rpartition("/")[0])
    <zklock.prometheus.Collector of 1 clients>
    """

    def __init__(
        self,
        clients: Client | _aio.Client | Mapping[str, Client | _aio.Client],
        *,
        path: Callable[[str], str] | None = None,
    ) -> None:
        self._clients = _exporters.by_name(clients)
        self._path = path

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, in Prometheus's own classes.

        >>> sorted(metric.name for metric in Collector(client).collect())[:2]
        ['zklock_acquisitions', 'zklock_busy']
        """
        stats = {name: client.stats() for name, client in self._clients.items()}
        for field, text in _exporters.COUNTS.items():
            counter = CounterMetricFamily(f"zklock_{field}", text, labels=["client"])
            for name, numbers in stats.items():
                counter.add_metric([name], getattr(numbers, field))
            yield counter
        losses = CounterMetricFamily("zklock_losses", _exporters.LOSSES, labels=["client", "reason"])
        requests = CounterMetricFamily("zklock_requests", _exporters.REQUESTS, labels=["client", "kind"])
        wait = HistogramMetricFamily(
            "zklock_wait_seconds",
            "Durations of the acquisitions, from the call to the grant.",
            labels=["client"],
        )
        hold = HistogramMetricFamily(
            "zklock_hold_seconds", "Durations of the holds that have ended.", labels=["client"]
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
        health = {name: client.health() for name, client in self._clients.items()}
        state = GaugeMetricFamily("zklock_state", _exporters.STATE, labels=["client", "state"])
        responsive = GaugeMetricFamily("zklock_responsive", _exporters.RESPONSIVE, labels=["client"])
        for name, now in health.items():
            for one in _exporters.STATES:
                state.add_metric([name, one], float(one == now.state))
            responsive.add_metric([name], float(now.responsive))
        yield from (state, responsive)
        for field, (seconds, text) in _exporters.SECONDS.items():
            gauge = GaugeMetricFamily(f"zklock_{field}_seconds", text, labels=["client"])
            for name, now in health.items():
                gauge.add_metric([name], seconds(now))
            yield gauge
        for field, (reports, text) in _exporters.REPORTS.items():
            gauge = GaugeMetricFamily(f"zklock_{field}", text, labels=["client", "mode", "path"])
            for name, now in health.items():
                counts = _exporters.by_mode(reports(now), self._path)
                # Without waiters or holders, report a zero, because a missing series would look like a
                # failure.
                for (mode, path), count in (counts or {("mutex", None): 0}).items():
                    gauge.add_metric([name, mode, path or ""], count)
            yield gauge

    def __repr__(self) -> str:
        return f"<zklock.prometheus.Collector of {len(self._clients)} clients>"


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the buckets in Prometheus's form: bounds as text, and the total at the end."""
    buckets = [(str(bound), float(count)) for bound, count in histogram.buckets]
    return [*buckets, ("+Inf", float(histogram.count))]
