"""Numbers that a program tells, beside bounds from the test's own clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.answers import Line, Pending, now
from harness.observer import Observer
from harness.worker import Worker

SLACK = 0.002
"""Seconds that rounding may take."""


@dataclass(frozen=True)
class Span:
    """Something that has lasted for so many seconds at least, and at most."""

    least: float
    most: float

    def __contains__(self, seconds: float) -> bool:
        return self.least - SLACK <= seconds <= self.most + SLACK

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)


@dataclass(frozen=True)
class Moment:
    """Something that happened between two stamps of CLOCK_MONOTONIC, in nanoseconds."""

    first: int
    last: int

    def ago(self, asked: int, answered: int) -> Span:
        """How long ago it was, for somebody who looked at a clock between these stamps."""
        return Span(max(0, asked - self.last) / 1e9, (answered - self.first) / 1e9)

    def until(self, later: Moment) -> Span:
        """How long it was from this one to a later one."""
        return Span(max(0, later.first - self.last) / 1e9, (later.last - self.first) / 1e9)


def granted(pending: Pending, **more: Any) -> tuple[Line, Moment]:
    """The answer to an acquire, and when the lock was granted."""
    line = pending.expect("acquired", **more)
    return line, Moment(pending.sent, int(line["t"]))


def queued(observer: Observer, path: str, pending: Pending, length: int) -> Moment:
    """When somebody asked that has a node now: the last of so many."""
    observer.wait_queue(path, length)
    return Moment(pending.sent, now())


def released(worker: Worker, lease: str, owner: str) -> Moment:
    """Release a lease; when its hold ended."""
    line = worker.release(lease, owner=owner)
    return Moment(int(line["t0"]), int(line["t"]))


@dataclass(frozen=True)
class Told:
    """An answer, and the stamps between which it was given."""

    value: Any
    asked: int
    answered: int

    def age_of(self, moment: Moment) -> Span:
        """How long ago something was when this was told."""
        return moment.ago(self.asked, self.answered)


def health(worker: Worker, client: str = "c") -> Told:
    """How a client is."""
    line = worker.call("health", client=client)
    return Told(line["value"], int(line["t0"]), int(line["t"]))


class Metrics:
    """The values of an exporter, by names and labels."""

    def __init__(self, worker: Worker, exporter: str, clients: Sequence[str]) -> None:
        line = worker.call("scrape", clients=list(clients), exporter=exporter)
        self._told = Told(None, int(line["t0"]), int(line["t"]))
        self.exporter = exporter
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for name, labels, value in line["value"]:
            key = (self._plain(name), frozenset((label, str(text)) for label, text in labels.items()))
            assert key not in self.values, key
            self.values[key] = value

    @staticmethod
    def _plain(name: str) -> str:
        """A name as OpenTelemetry and Prometheus both have it, without units and ends."""
        name = name.replace(".", "_").removeprefix("zklock_")
        return name.removesuffix("_total")

    def __call__(self, name: str, **labels: str) -> float:
        """The value under this name with exactly these labels."""
        return self.values[name, frozenset(labels.items())]

    def all(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """Every value under this name."""
        return {labels: value for (one, labels), value in self.values.items() if one == name}

    def seconds(self, name: str, client: str) -> float:
        """A gauge in seconds."""
        return self(f"{name}_seconds" if self.exporter == "prometheus" else name, client=client)

    def age_of(self, moment: Moment) -> Span:
        """How long ago something was when this was told."""
        return self._told.age_of(moment)


def assert_counts(buckets: Iterable[tuple[float, float]], spans: Sequence[Span]) -> None:
    """A histogram's buckets count what may have been no longer than their bounds, and what must have been."""
    for bound, count in buckets:
        certain = sum(span.most + SLACK <= bound for span in spans)
        possible = sum(span.least - SLACK <= bound for span in spans)
        assert certain <= count <= possible, (bound, count, spans)
