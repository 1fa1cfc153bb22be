"""Compares numbers that a program reports with bounds measured by the test's own clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.answers import Line, Pending, now
from harness.observer import Observer
from harness.worker import Worker

SLACK = 0.002
"""Tolerance in seconds for rounding."""


@dataclass(frozen=True)
class Span:
    """Lower and upper bound of a duration in seconds."""

    least: float
    most: float

    def __contains__(self, seconds: float) -> bool:
        return self.least - SLACK <= seconds <= self.most + SLACK

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)


@dataclass(frozen=True)
class Moment:
    """An event that happened between two stamps of CLOCK_MONOTONIC, in nanoseconds."""

    first: int
    last: int

    def ago(self, asked: int, answered: int) -> Span:
        """Return the least and greatest possible age of the event at the time when a program read its clock.

        The program read its clock between the stamps `asked` and `answered`.
        """
        return Span(max(0, asked - self.last) / 1e9, (answered - self.first) / 1e9)

    def until(self, later: Moment) -> Span:
        """Return the possible time from this event to a later one."""
        return Span(max(0, later.first - self.last) / 1e9, (later.last - self.first) / 1e9)


def granted(pending: Pending, **more: Any) -> tuple[Line, Moment]:
    """Return the reply to an acquire, and the time of the grant."""
    line = pending.expect("acquired", **more)
    return line, Moment(pending.sent, int(line["t"]))


def queued(observer: Observer, path: str, pending: Pending, length: int) -> Moment:
    """Wait until the queue has `length` contenders. Return the moment at which `pending` joined the queue."""
    observer.wait_queue(path, length)
    return Moment(pending.sent, now())


def released(worker: Worker, lease: str, owner: str) -> Moment:
    """Release a lease. Return the time at which its hold ended."""
    line = worker.release(lease, owner=owner)
    return Moment(int(line["t0"]), int(line["t"]))


@dataclass(frozen=True)
class Report:
    """A reported value, and the stamps before and after the report."""

    value: Any
    asked: int
    answered: int

    def age_of(self, moment: Moment) -> Span:
        """Return the possible age of an event at the time of this report."""
        return moment.ago(self.asked, self.answered)


def health(worker: Worker, client: str = "c") -> Report:
    """Return a client's health report."""
    line = worker.call("health", client=client)
    return Report(line["value"], int(line["t0"]), int(line["t"]))


class Metrics:
    """The values of an exporter, by name and labels."""

    def __init__(self, worker: Worker, exporter: str, clients: Sequence[str]) -> None:
        line = worker.call("scrape", clients=list(clients), exporter=exporter)
        self._report = Report(None, int(line["t0"]), int(line["t"]))
        self.exporter = exporter
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for name, labels, value in line["value"]:
            key = (self._plain(name), frozenset((label, str(text)) for label, text in labels.items()))
            assert key not in self.values, key
            self.values[key] = value

    @staticmethod
    def _plain(name: str) -> str:
        """Return the part of a metric's name that is the same in OpenTelemetry and in Prometheus."""
        name = name.replace(".", "_").removeprefix("zklock_")
        return name.removesuffix("_total")

    def __call__(self, name: str, **labels: str) -> float:
        """Return the value under this name with exactly these labels."""
        return self.values[name, frozenset(labels.items())]

    def all(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """Return every value under this name."""
        return {labels: value for (one, labels), value in self.values.items() if one == name}

    def seconds(self, name: str, client: str) -> float:
        """Return a gauge in seconds."""
        return self(f"{name}_seconds" if self.exporter == "prometheus" else name, client=client)

    def age_of(self, moment: Moment) -> Span:
        """Return the possible age of an event at the time of this scrape."""
        return self._report.age_of(moment)


def assert_counts(buckets: Iterable[tuple[float, float]], spans: Sequence[Span]) -> None:
    """Assert that the count of each histogram bucket is right.

    The test knows only limits of each duration (`least` and `most`), and therefore only limits of each count.
    """
    for bound, count in buckets:
        certain = sum(span.most + SLACK <= bound for span in spans)
        possible = sum(span.least - SLACK <= bound for span in spans)
        assert certain <= count <= possible, (bound, count, spans)
