"""Spans and metrics for OpenTelemetry. This module needs `pip install 'pyzklock[opentelemetry]'`.

>>> from zklock.opentelemetry import observe, traced
>>> observe(client)
>>> with traced(lock) as lease:
...     write_report(lease.fencing_token)

An acquire without `traced` runs none of this code, and so has no extra cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final, TypeAlias, overload

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
from opentelemetry.trace import Span, StatusCode, Tracer, TracerProvider, get_tracer

from zklock import (
    Client,
    Election,
    Health,
    Leadership,
    Lease,
    Lock,
    LockTimeout,
    Stats,
    __version__,
    _exporters,
)
from zklock import aio as _aio

__all__ = ["observe", "traced", "traced_aio"]

_WAIT: Final = "zklock wait"
_HOLD: Final = "zklock hold"


@overload
def traced(
    lock: Election, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> AbstractContextManager[Leadership]: ...


@overload
def traced(
    lock: Lock, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> AbstractContextManager[Lease]: ...


@contextmanager
def traced(
    lock: Lock | Election, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> Iterator[Any]:
    """Run the block with the lock, like `lock.hold(timeout)`, with spans for the wait and the hold.

    >>> with traced(lock) as lease:
    ...     write_report(lease.fencing_token)

    The two spans are children of the current span, and spans of the block are children of the hold. Both have
    the attribute `zklock.path`. Once the lock is granted, they also have `zklock.mode`, `zklock.node` and
    `zklock.fencing_token` (in decimal digits). `zklock.outcome` of the wait is `acquired`, `timeout`, `busy`
    (the lock was taken, and the timeout is 0), or the name of an error. `zklock.outcome` of the hold is
    `released` or `lost`. A lost hold also has `zklock.lost_reason`. `timeout` is in seconds. Raise the same
    exceptions as `lock.hold`.

    An election is traced in the same way: the wait is its campaign, like `election.lead(timeout)`, and the
    hold is its leadership. Both spans have the attribute `zklock.candidate`, the candidate's id.

    >>> with traced(election) as leadership:
    ...     run_scheduler(leadership.fencing_token)
    """
    tracer = get_tracer("zklock", __version__, tracer_provider)
    with ExitStack() as stack:
        attributes = _attributes(lock)
        with _wait(tracer, attributes, timeout) as wait:
            scope = lock.lead(timeout) if isinstance(lock, Election) else lock.hold(timeout)
            lease = stack.enter_context(scope)
            _granted(wait, lease)
        # Release the lock within the span, because it is held until the server acknowledges the release.
        with _hold(tracer, attributes, lease), stack.pop_all():
            yield lease


@overload
def traced_aio(
    lock: _aio.Election, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> AbstractAsyncContextManager[_aio.Leadership]: ...


@overload
def traced_aio(
    lock: _aio.Lock, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> AbstractAsyncContextManager[_aio.Lease]: ...


@asynccontextmanager
async def traced_aio(
    lock: _aio.Lock | _aio.Election,
    timeout: float | None = -1,
    *,
    tracer_provider: TracerProvider | None = None,
) -> AsyncIterator[Any]:
    """Run the block with a lock or an election of `zklock.aio`. See `zklock.opentelemetry.traced`.

    >>> async with traced_aio(aio.Mutex(client, "/locks/report")) as lease:
    ...     await write_report(lease.fencing_token)
    """
    tracer = get_tracer("zklock", __version__, tracer_provider)
    async with AsyncExitStack() as stack:
        attributes = _attributes(lock)
        with _wait(tracer, attributes, timeout) as wait:
            scope = lock.lead(timeout) if isinstance(lock, _aio.Election) else lock.hold(timeout)
            lease = await stack.enter_async_context(scope)
            _granted(wait, lease)
        with _hold(tracer, attributes, lease):
            async with stack.pop_all():
                yield lease


def _attributes(lock: Lock | Election | _aio.Lock | _aio.Election) -> dict[str, str]:
    attributes = {"zklock.path": lock.path}
    if isinstance(lock, (Election, _aio.Election)):
        attributes["zklock.candidate"] = lock.id
    return attributes


@contextmanager
def _wait(tracer: Tracer, attributes: dict[str, str], timeout: float | None) -> Iterator[Span]:
    # With a timeout of 0, it is not an error if the lock is taken.
    tries = timeout == 0
    with tracer.start_as_current_span(
        _WAIT, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            late = isinstance(error, LockTimeout)
            outcome = ("busy" if tries else "timeout") if late else type(error).__name__
            span.set_attribute("zklock.outcome", outcome)
            if isinstance(error, Exception) and not (late and tries):
                span.record_exception(error)
                span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
            raise
        span.set_attribute("zklock.outcome", "acquired")


@contextmanager
def _hold(tracer: Tracer, attributes: dict[str, str], lease: Lease | _aio.Lease) -> Iterator[None]:
    with tracer.start_as_current_span(_HOLD, attributes=attributes) as span:
        _granted(span, lease)
        try:
            yield
        finally:
            reason = lease.loss_reason
            span.set_attribute("zklock.outcome", "released" if reason is None else "lost")
            if reason is not None:
                span.set_attribute("zklock.lost_reason", reason)


def _granted(span: Span, lease: Lease | _aio.Lease) -> None:
    span.set_attributes(
        {
            "zklock.mode": lease.mode,
            "zklock.node": lease.node,
            # A string, as in the Node binding: JavaScript numbers cannot represent such large values.
            "zklock.fencing_token": str(lease.fencing_token),
        }
    )


def observe(
    clients: Client | _aio.Client | Mapping[str, Client | _aio.Client],
    *,
    path: Callable[[str], str] | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Export the statistics and health of a client, or of several named clients, as metrics.

    >>> observe({"reports": client})

    The values are read when the metrics are exported. All have the attribute `client`.

    - Counters: `zklock.acquisitions`, `zklock.contended`, `zklock.handoffs`, `zklock.retakes`, `zklock.busy`,
      `zklock.timeouts`, `zklock.sessions`, `zklock.reconnections`, `zklock.losses` by `reason`, and
      `zklock.requests` by `kind`.
    - Gauges: `zklock.waiters` and `zklock.holders` by `mode`, `zklock.state` by `state` (1 for the client's
      current state), and `zklock.responsive`.
    - Gauges in seconds: `zklock.term.remaining`, `zklock.oldest.wait` and `zklock.oldest.hold`.

    `path` is a function that maps a lock's path to the attribute `path` of waiters and holders. It should
    return few different values. Without it there is no such attribute.
    """
    meter = get_meter("zklock", __version__, meter_provider)
    export = _Export(_exporters.by_name(clients))

    def counter(name: str, values: _Values, text: str) -> None:
        meter.create_observable_counter(f"zklock.{name}", [export.callback(values)], description=text)

    def gauge(name: str, values: _Values, text: str, unit: str = "") -> None:
        meter.create_observable_gauge(f"zklock.{name}", [export.callback(values)], unit, text)

    def count(field: str) -> _Values:
        return lambda stats, _: [(getattr(stats, field), {})]

    def duration(seconds: Callable[[Health], float]) -> _Values:
        return lambda _, health: [(seconds(health), {})]

    def by_mode(reports: Callable[[Health], _exporters.Reports]) -> _Values:
        return lambda _, health: [
            (number, {"mode": mode} if where is None else {"mode": mode, "path": where})
            for (mode, where), number in _exporters.by_mode(reports(health), path).items()
        ]

    for field, text in _exporters.COUNTS.items():
        counter(field, count(field), text)
    counter("losses", lambda stats, _: _each(stats.losses_by_reason, "reason"), _exporters.LOSSES)
    counter("requests", lambda stats, _: _each(stats.requests, "kind"), _exporters.REQUESTS)
    for field, (reports, text) in _exporters.REPORTS.items():
        gauge(field, by_mode(reports), text)
    gauge(
        "state",
        lambda _, health: _each({one: int(one == health.state) for one in _exporters.STATES}, "state"),
        _exporters.STATE,
    )
    gauge("responsive", lambda _, health: [(int(health.responsive), {})], _exporters.RESPONSIVE)
    for field, (seconds, text) in _exporters.SECONDS.items():
        gauge(field.replace("_", "."), duration(seconds), text, "s")


# A function that returns the values of an instrument for one client: numbers with their attributes.
_Values: TypeAlias = Callable[[Stats, Health], Iterable[tuple[float, dict[str, str]]]]


def _each(numbers: Mapping[str, int], label: str) -> Iterable[tuple[float, dict[str, str]]]:
    return [(number, {label: value}) for value, number in numbers.items()]


class _Export:
    """Reads each client once per export, so that all instruments report the same moment.

    OpenTelemetry queries one instrument after the other, without a signal at the beginning of an export. So a
    second query of the same instrument means that a new export has begun.
    """

    def __init__(self, clients: Mapping[str, _exporters.AnyClient]) -> None:
        self._clients = clients
        self._read: dict[str, tuple[Stats, Health]] = {}
        self._queried: set[_Values] = set()

    def callback(self, values: _Values) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [
            Observation(value, {"client": name, **attributes})
            for name, (stats, health) in self._snapshot(values).items()
            for value, attributes in values(stats, health)
        ]

    def _snapshot(self, values: _Values) -> dict[str, tuple[Stats, Health]]:
        if not self._read or values in self._queried:
            self._read = {name: (client.stats(), client.health()) for name, client in self._clients.items()}
            self._queried.clear()
        self._queried.add(values)
        return self._read
