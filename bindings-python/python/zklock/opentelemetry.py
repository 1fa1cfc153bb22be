"""Spans and metrics for OpenTelemetry; needs `pip install 'pyzklock[opentelemetry]'`.

>>> from zklock.opentelemetry import observe, traced
>>> observe(client)
>>> with traced(lock) as lease:
...     write_report(lease.fencing_token)

Nothing of it runs where it is not used: an acquire without `traced` does not know of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Final

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
from opentelemetry.trace import Span, StatusCode, Tracer, TracerProvider, get_tracer

from zklock import Client, Health, Lease, Lock, LockTimeout, __version__
from zklock import aio as _aio

__all__ = ["observe", "traced", "traced_aio"]

_WAIT: Final = "zklock wait"
_HOLD: Final = "zklock hold"
_STATES: Final = ("idle", "connecting", "connected", "suspended", "closed", "forked")
_COUNTS: Final = {
    "acquisitions": "Holds that began.",
    "contended": "Those of them that had to wait for another contender.",
    "busy": "Tries that found the lock taken.",
    "timeouts": "Attempts that timed out.",
    "sessions": "Sessions that began.",
    "reconnections": "Connections that were lost and replaced within a session.",
}


@contextmanager
def traced(
    lock: Lock, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> Iterator[Lease]:
    """Hold a lock for a block, as `lock.hold(timeout)` does, with a span for the wait and one for the hold.

    >>> with traced(lock) as lease:
    ...     write_report(lease.fencing_token)

    They are children of the current span, and spans of the block are children of the hold. Both have the
    attribute `zklock.path`, and once the lock is granted `zklock.mode`, `zklock.node` and
    `zklock.fencing_token` (in decimal digits). `zklock.outcome` of the wait is `acquired`, `timeout`, `busy`
    with a time-out of 0, or the name of an error; of the hold `released` or `lost`, then with
    `zklock.lost_reason`. `timeout` is in seconds. Raises what `lock.hold` raises.
    """
    tracer = get_tracer("zklock", __version__, tracer_provider)
    with ExitStack() as stack:
        with _wait(tracer, lock.path, timeout) as wait:
            lease = stack.enter_context(lock.hold(timeout))
            _granted(wait, lease)
        # Released within the span: who waits for the server's acknowledgement still holds.
        with _hold(tracer, lease), stack.pop_all():
            yield lease


@asynccontextmanager
async def traced_aio(
    lock: _aio.Lock, timeout: float | None = -1, *, tracer_provider: TracerProvider | None = None
) -> AsyncIterator[_aio.Lease]:
    """The same as `traced`, for the locks of `zklock.aio`.

    >>> async with traced_aio(aio.Mutex(client, "/locks/report")) as lease:
    ...     await write_report(lease.fencing_token)
    """
    tracer = get_tracer("zklock", __version__, tracer_provider)
    async with AsyncExitStack() as stack:
        with _wait(tracer, lock.path, timeout) as wait:
            lease = await stack.enter_async_context(lock.hold(timeout))
            _granted(wait, lease)
        with _hold(tracer, lease):
            async with stack.pop_all():
                yield lease


@contextmanager
def _wait(tracer: Tracer, path: str, timeout: float | None) -> Iterator[Span]:
    # That a lock is taken is what a try asks, and no error.
    tries = timeout == 0
    with tracer.start_as_current_span(
        _WAIT, attributes={"zklock.path": path}, record_exception=False, set_status_on_exception=False
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
def _hold(tracer: Tracer, lease: Lease | _aio.Lease) -> Iterator[None]:
    with tracer.start_as_current_span(_HOLD, attributes={"zklock.path": lease.path}) as span:
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
            # Text, as in Node, whose numbers are not exact there.
            "zklock.fencing_token": str(lease.fencing_token),
        }
    )


def observe(
    clients: Client | _aio.Client | Mapping[str, Client | _aio.Client],
    *,
    path: Callable[[str], str] | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Have a meter read the statistics and the health of a client, or of several under names of your choice.

    >>> observe({"reports": client})

    They are read when the metrics are exported. Counters: `zklock.acquisitions`, `zklock.contended`,
    `zklock.busy`, `zklock.timeouts`, `zklock.sessions`, `zklock.reconnections`, `zklock.losses` by `reason`,
    and `zklock.requests` by `kind`; gauges: `zklock.waiters` and `zklock.holders` by `mode`, `zklock.state`
    by `state` (1 for the one that the client is in), `zklock.responsive`, and in seconds
    `zklock.term.remaining`, `zklock.oldest.wait` and `zklock.oldest.hold`. All have the attribute `client`.
    `path` is a function from a lock's path to the attribute `path` of waiters and holders, which should have
    few values; without it there is no such attribute.
    """
    named = dict(clients) if isinstance(clients, Mapping) else {"": clients}
    meter = get_meter("zklock", __version__, meter_provider)

    def count(field: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [
            Observation(getattr(client.stats(), field), {"client": name}) for name, client in named.items()
        ]

    def by(field: str, label: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [
            Observation(number, {"client": name, label: value})
            for name, client in named.items()
            for value, number in getattr(client.stats(), field).items()
        ]

    def state(_: CallbackOptions) -> Iterable[Observation]:
        for name, client in named.items():
            current = client.health().state
            for one in _STATES:
                yield Observation(int(one == current), {"client": name, "state": one})

    def how(value: Callable[[Health], float]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [
            Observation(value(client.health()), {"client": name}) for name, client in named.items()
        ]

    def now(field: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            for name, client in named.items():
                reports = getattr(client.health(), field)
                kinds = Counter((one.mode, path(one.path) if path else None) for one in reports)
                for (mode, where), number in kinds.items():
                    attributes = {"client": name, "mode": mode}
                    yield Observation(number, attributes if where is None else {**attributes, "path": where})

        return read

    for field, text in _COUNTS.items():
        meter.create_observable_counter(f"zklock.{field}", [count(field)], description=text)
    lost = "Holds that were lost, except by closing the client."
    meter.create_observable_counter("zklock.losses", [by("losses_by_reason", "reason")], description=lost)
    sent = "Requests for locks."
    meter.create_observable_counter("zklock.requests", [by("requests", "kind")], description=sent)
    for field, values, text in (
        ("waiters", now("waits"), "Attempts that wait for a lock."),
        ("holders", now("holds"), "Holds."),
        ("state", state, "1 for the state that the client is in, 0 for the others."),
        (
            "responsive",
            how(lambda health: int(health.responsive)),
            "1 if the library's thread could be looked at, else 0.",
        ),
    ):
        meter.create_observable_gauge(f"zklock.{field}", [values], description=text)
    for field, seconds, text in (
        ("term.remaining", lambda health: health.remaining, "What is left of the session's term."),
        (
            "oldest.wait",
            lambda health: max((one.age for one in health.waits), default=0.0),
            "How long the oldest of the attempts has waited; 0 without any.",
        ),
        (
            "oldest.hold",
            lambda health: max((one.age for one in health.holds), default=0.0),
            "How long the oldest of the holds has lasted; 0 without any.",
        ),
    ):
        meter.create_observable_gauge(f"zklock.{field}", [how(seconds)], unit="s", description=text)
