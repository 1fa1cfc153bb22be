"""Helpers of the workers on zklock's Python APIs: they create locks and report leases and statistics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import zklock

from workers.line import Command, emit


def connect_options(command: Command) -> dict[str, Any]:
    """Return the client options in a `connect` command, or in the `options` of a lock."""
    names = ("session_timeout", "connect_timeout", "acl", "parent_acl", "label", "identify", "max_frame")
    options = {name: command[name] for name in names if name in command}
    if "auth" in command:
        options["auth"] = [(scheme, credential) for scheme, credential in command["auth"]]
    if "sasl" in command:
        options["sasl"] = tuple(command["sasl"])
    if "tls" in command:
        options["tls"] = zklock.Tls(**command["tls"])
    return options


def make_lock(api: Any, client: Any, command: Command, locks: Mapping[str, Any]) -> Any:
    """Create a lock of `zklock` or `zklock.aio`. `locks` contains possible members of a multi-lock."""
    kind = command.get("kind", "mutex")
    if kind == "multi":
        return api.MultiLock([locks[name] for name in command["members"]])
    path = command["path"]
    shared = _shared_options(command)
    if kind == "semaphore":
        counted = _given(command, "permits", "shared_count", "label", "max_hold", "max_waiters")
        return api.Semaphore(client, path, **counted, **shared)
    if kind == "election":
        chosen = {"id": command["candidate"]} if "candidate" in command else {}
        return api.Election(client, path, **chosen, **shared)
    options = _given(command, "label", "naming", "max_hold", "max_waiters", "cohort", "linger") | shared
    if kind == "mutex":
        return api.Mutex(client, path, reentrant=command.get("reentrant", True), **options)
    return getattr(api.ReadWriteLock(client, path, **options), f"{kind}_lock")


def _shared_options(command: Command) -> dict[str, Any]:
    """Return the client options for a lock that gets hosts instead of a client."""
    given = connect_options(command.get("options", {}))
    return {"options": zklock.ClientOptions(**given)} if given else {}


def _given(command: Command, *names: str) -> dict[str, Any]:
    return {name: command[name] for name in names if name in command}


def scope_of(lock: Any) -> Any:
    """Return the context manager that holds the lock, or leads."""
    return lock.lead() if hasattr(lock, "lead") else lock.hold()


def candidate(found: Any) -> dict[str, Any] | None:
    """Return a candidate of an election in the protocol's form."""
    return found and {
        "position": found.position,
        "id": found.id,
        "node": found.node,
        "session": str(found.session_id),
        "token": str(found.fencing_token),
    }


def facts(lease: Any) -> dict[str, Any]:
    """Return the worker protocol's fields of a grant. Read `remaining` first, right after the grant."""
    return {
        "remaining": lease.remaining,
        "node": lease.node,
        "token": str(lease.fencing_token),
        "handoffs": lease.handoffs,
        "session": str(lease.session_id),
    }


def all_facts(name: str, leases: Sequence[Any]) -> dict[str, Any]:
    """Return several numbered leases of one acquire in the protocol's form."""
    reported = [{"lease": f"{name}/{number}", **facts(lease)} for number, lease in enumerate(leases)]
    return {**facts(leases[0]), "leases": reported}


def first_facts(held: Any) -> dict[str, Any]:
    """Return a scope's grant in the protocol's form: its first lease."""
    return facts(held if hasattr(held, "node") else held[0])


def longest(held: Any) -> float:
    """Return the longest remaining term of a scope's leases in seconds."""
    leases = [held] if hasattr(held, "node") else held
    return max(float(lease.remaining) for lease in leases)


def release_options(command: Command) -> dict[str, Any]:
    """Return the options of a release command."""
    return _given(command, "wait", "timeout")


def describe(contender: Any) -> dict[str, Any]:
    """Return a contender in the protocol's form."""
    since, linger = contender.since, contender.linger
    return {
        "position": contender.position,
        "node": contender.node,
        "reader": contender.reader,
        "session": str(contender.session_id),
        "token": str(contender.fencing_token),
        "host": contender.host,
        "pid": contender.pid,
        "language": contender.language,
        "label": contender.label,
        "since": None if since is None else round(since * 1000),
        "cohort": contender.cohort,
        "linger": None if linger is None else round(linger * 1000),
        "data": contender.data.decode("latin-1"),
        "data_length": contender.data_length,
    }


class _Teller(logging.Handler):
    """Sends each log record to the tests, formatted as in a log."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, str] = getattr(record, "fields", {})
        emit("log", text=self.format(record), fields=list(fields.values()))


def listen_to_log() -> None:
    """Send everything that zklock logs to the tests."""
    logger = logging.getLogger("zklock")
    logger.setLevel(1)
    logger.addHandler(_Teller())


def statistics(stats: Any) -> dict[str, Any]:
    """Return a client's statistics in the protocol's form."""
    counts = (
        "acquisitions",
        "contended",
        "handoffs",
        "retakes",
        "busy",
        "timeouts",
        "losses",
        "sessions",
        "reconnections",
    )
    fields = ("transport", *counts, "losses_by_reason", "requests")
    histograms = {
        name: {field: getattr(getattr(stats, name), field) for field in ("count", "sum", "max", "buckets")}
        for name in ("wait", "hold")
    }
    return {field: getattr(stats, field) for field in fields} | histograms


def condition(health: Any) -> dict[str, Any]:
    """Return a client's health in the protocol's form."""
    fields = ("state", "server", "session_timeout", "last_proof", "remaining", "responsive")
    both = ("path", "mode", "label", "age", "node")
    waits, holds = (
        (*both, "in_cohort", "position", "behind"),
        (*both, "levels", "pinned", "state", "remaining"),
    )
    return {
        **{field: getattr(health, field) for field in fields},
        "session": str(health.session_id),
        "waits": [{field: getattr(wait, field) for field in waits} for wait in health.waits],
        "holds": [
            {**{field: getattr(hold, field) for field in holds}, "token": str(hold.fencing_token)}
            for hold in health.holds
        ],
    }


def scrape(clients: Mapping[str, Any], exporter: str) -> list[tuple[str, dict[str, str], float]]:
    """Return the exporter's metrics of the clients: names, labels and values."""
    if exporter == "prometheus":
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.parser import text_string_to_metric_families
        from zklock.prometheus import Collector

        registry = CollectorRegistry()
        registry.register(Collector(clients, path=lambda path: path))
        families = text_string_to_metric_families(generate_latest(registry).decode())
        return [(one.name, dict(one.labels), one.value) for family in families for one in family.samples]
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from zklock.opentelemetry import observe

    reader = InMemoryMetricReader()
    observe(clients, path=lambda path: path, meter_provider=MeterProvider([reader]))
    reported: Any = reader.get_metrics_data()
    (scope,) = reported.resource_metrics[0].scope_metrics
    return [
        (metric.name, dict(point.attributes), point.value)
        for metric in scope.metrics
        for point in metric.data.data_points
    ]


def add_operations(transaction: Any, operations: Sequence[Command]) -> Any:
    """Add the command's operations to a transaction."""
    for operation in operations:
        fields = {name: value for name, value in operation.items() if name != "op"}
        if "data" in fields:
            fields["data"] = fields["data"].encode()
        getattr(transaction, operation["op"])(**fields)
    return transaction
