"""Spans and metrics in OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import zklock
from zklock import aio
from zklock.opentelemetry import observe, traced, traced_aio

Traces = tuple[TracerProvider, InMemorySpanExporter]


@pytest.fixture
def traces() -> Traces:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("zklock."): value for name, value in (span.attributes or {}).items()}


def test_a_wait_and_a_hold_are_spans_with_the_blocks_spans_below(
    client: zklock.Client, path: str, traces: Traces
) -> None:
    provider, exporter = traces
    tracer = provider.get_tracer("test")
    pair = zklock.ReadWriteLock(client, path)
    with tracer.start_as_current_span("request"), traced(pair.write_lock, tracer_provider=provider) as lease:
        assert lease.state == "held"
        with tracer.start_as_current_span("work"):
            pass
    assert lease.state == "released"
    wait, work, hold, request = exporter.get_finished_spans()
    assert [wait.name, work.name, hold.name] == ["zklock wait", "work", "zklock hold"]
    assert request.context
    assert hold.context
    assert wait.parent == hold.parent == request.context
    assert work.parent == hold.context
    token = str(lease.fencing_token)
    common = {"path": path, "mode": "write", "node": lease.node, "fencing_token": token}
    assert attributes(wait) == {**common, "outcome": "acquired"}
    assert attributes(hold) == {**common, "outcome": "released"}


def test_a_campaign_and_a_leadership_are_spans(client: zklock.Client, path: str, traces: Traces) -> None:
    provider, exporter = traces
    election = zklock.Election(client, path, id="me")
    with traced(election, 5, tracer_provider=provider) as leadership:
        assert isinstance(leadership, zklock.Leadership)
        assert election.is_leader
    assert not election.is_leader
    wait, hold = exporter.get_finished_spans()
    assert [wait.name, hold.name] == ["zklock wait", "zklock hold"]
    common = {
        "path": path,
        "candidate": "me",
        "mode": "leadership",
        "node": leadership.node,
        "fencing_token": str(leadership.fencing_token),
    }
    assert attributes(wait) == {**common, "outcome": "acquired"}
    assert attributes(hold) == {**common, "outcome": "released"}


def test_a_campaign_in_vain_and_a_lost_leadership_say_so(
    client: zklock.Client, other: zklock.Client, path: str, traces: Traces
) -> None:
    provider, exporter = traces
    first, second = zklock.Election(client, path, id="first"), zklock.Election(other, path, id="second")
    with first.lead(), pytest.raises(zklock.LockTimeout), traced(second, 0, tracer_provider=provider):
        pass
    (wait,) = exporter.get_finished_spans()
    assert attributes(wait) == {"path": path, "candidate": "second", "outcome": "busy"}
    exporter.clear()

    async def lose(awaited: aio.Client) -> None:
        async with traced_aio(aio.Election(awaited, path, id="me"), tracer_provider=provider) as leadership:
            other.break_lock(leadership.node)
            await asyncio.sleep(3600)

    async def main() -> None:
        async with aio.Client(client.hosts) as awaited:
            with pytest.raises(zklock.LockLost):
                await lose(awaited)

    asyncio.run(main())
    hold = exporter.get_finished_spans()[-1]
    exported = attributes(hold)
    assert (exported["outcome"], exported["lost_reason"], exported["candidate"]) == (
        "lost",
        "node deleted",
        "me",
    )


def test_a_timeout_and_a_loss_are_errors_with_their_reasons(
    client: zklock.Client, other: zklock.Client, path: str, traces: Traces
) -> None:
    provider, exporter = traces
    lock = zklock.Mutex(client, path)
    with (
        zklock.Mutex(other, path),
        pytest.raises(zklock.LockTimeout),
        traced(lock, 0.05, tracer_provider=provider),
    ):
        pass
    (wait,) = exporter.get_finished_spans()
    assert attributes(wait) == {"path": path, "outcome": "timeout"}
    assert wait.status.status_code == StatusCode.ERROR
    assert [event.name for event in wait.events] == ["exception"]
    exporter.clear()

    def lose() -> None:
        with traced(lock, tracer_provider=provider) as lease:
            other.break_lock(lease.node)
            assert lease.wait_lost(60)

    with pytest.raises(zklock.LockLost):
        lose()
    _, hold = exporter.get_finished_spans()
    assert attributes(hold)["outcome"] == "lost"
    assert attributes(hold)["lost_reason"] == "node deleted"
    assert hold.status.status_code == StatusCode.ERROR
    assert not lock.owned()


def test_that_a_lock_is_taken_is_no_error_of_a_try(
    client: zklock.Client, other: zklock.Client, path: str, traces: Traces
) -> None:
    provider, exporter = traces
    with zklock.Mutex(other, path), pytest.raises(zklock.LockTimeout):
        traced(zklock.Mutex(client, path), 0, tracer_provider=provider).__enter__()
    client.close()
    with pytest.raises(zklock.ClientClosed):
        traced(zklock.Mutex(client, path), 0, tracer_provider=provider).__enter__()
    busy, closed = exporter.get_finished_spans()
    assert attributes(busy) == {"path": path, "outcome": "busy"}
    assert (busy.status.status_code, busy.events) == (StatusCode.UNSET, ())
    assert attributes(closed)["outcome"] == "ClientClosed"
    assert closed.status.status_code == StatusCode.ERROR


def test_in_asyncio(hosts: str, path: str, traces: Traces) -> None:
    provider, exporter = traces

    async def body() -> None:
        async with aio.Client(hosts) as client:
            async with traced_aio(aio.Semaphore(client, path, 2), tracer_provider=provider) as lease:
                assert lease.state == "held"
            assert lease.state == "released"

    asyncio.run(body())
    wait, hold = exporter.get_finished_spans()
    assert [attributes(span)["mode"] for span in (wait, hold)] == ["permit", "permit"]
    assert attributes(hold)["outcome"] == "released"


def numbers(reader: InMemoryMetricReader) -> dict[tuple[str, ...], float]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, *(str(value) for _, value in sorted((point.attributes or {}).items()))): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if hasattr(point, "value")
    }


def test_a_meter_reads_statistics_and_health(client: zklock.Client, path: str) -> None:
    reader = InMemoryMetricReader()
    observe({"a": client}, path=lambda path: path[:7], meter_provider=MeterProvider([reader]))
    assert numbers(reader)["zklock.acquisitions", "a"] == 0
    with zklock.Mutex(client, path):
        exported = numbers(reader)
    assert exported["zklock.acquisitions", "a"] == 1
    assert exported["zklock.holders", "a", "mutex", "/python"] == 1
    assert exported["zklock.losses", "a", "term ended"] == 0
    assert 0 < exported["zklock.term.remaining", "a"] <= client.session_timeout / 2
    assert exported["zklock.requests", "a", "create"] == client.stats().requests["create"] > 0
    assert exported["zklock.state", "a", "connected"] == exported["zklock.responsive", "a"] == 1
    assert exported["zklock.state", "a", "closed"] == exported["zklock.oldest.wait", "a"] == 0
    assert 0 < exported["zklock.oldest.hold", "a"] < 60
    assert ("zklock.holders", "a", "mutex", "/python") not in numbers(reader)


class Counted:
    """A client that counts how often it is read."""

    def __init__(self, client: zklock.Client) -> None:
        self.client = client
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self.client, name)


def test_an_export_reads_each_client_once(client: zklock.Client, path: str) -> None:
    """An export reads a client's numbers once, so a client that does not answer delays it only once."""
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    clients: dict[str, Any] = {name: Counted(client) for name in "ab"}
    observe(clients, meter_provider=MeterProvider(readers))
    for exports in range(1, 4):
        exported = numbers(readers[exports % 2])
        assert exported["zklock.acquisitions", "b"] == exports - 1
        assert [one.asked for one in clients.values()] == [{"stats": exports, "health": exports}] * 2
        with zklock.Mutex(client, path):
            pass
