"""Generates sentences about zklock's limits, and about cases in which other peers are faster. A sentence
appears only if the figures support it.
"""

from __future__ import annotations

from collections.abc import Iterator

from locks.results import Table
from locks.shown import OURS, SHOWN

MORE = 1.05
"""Sentences mention only differences of at least this factor. Smaller differences can be noise."""


def _rate(table: Table, workload: str, peer: str) -> str:
    value = table.figure(workload, peer)
    return "not measured" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _trips(table: Table, workload: str, peer: str) -> str:
    return f"{table.figure(workload, peer) or 0:.1f}"


def _percent(part: float) -> str:
    return f"{part:.0%}".replace("%", " %")


def weak(table: Table) -> Iterator[str]:
    """Yield the sentences in Markdown."""
    for one in (_one_each, _long_queues, _readers, _bindings, _databases, _again):
        yield from one(table)


def _one_each(table: Table) -> Iterator[str]:
    """Describe many clients with one contender each."""
    requests, theirs = table.requests("clients", "rust"), table.requests("clients", "go")
    ours, go = table.figure("clients", "rust"), table.figure("clients", "go")
    if not (requests and theirs and ours and go) or go * MORE < ours:
        return
    yield (
        "**Many clients with one contender each** gain little or nothing over a plain recipe: 64 of them "
        f"acquire the lock {_rate(table, 'clients', 'rust')} times per second in Rust, "
        f"{_rate(table, 'clients', 'go')} with go-zookeeper, {_rate(table, 'clients', 'recipe')} with the "
        f"recipe on node-zookeeper-client. zklock sends {requests:.1f} requests for each acquire, and "
        f"go-zookeeper {theirs:.1f}, because a waiter of zklock watches the *two* nodes ahead of its own. "
        "That saves a round trip at each hand-off. On loopback, where a round trip takes hardly any time, "
        "only the additional requests matter."
    )


def _long_queues(table: Table) -> Iterator[str]:
    """Compare the rates of a long queue with those of a shorter one."""
    parts = {}
    for peer in OURS:
        few, many = table.figure("wait-100", peer), table.figure("wait-2000", peer)
        if few and many and many / few < 0.8:
            parts[peer] = many / few
    if parts:
        told = ", ".join(f"{SHOWN[peer]} {_percent(part)}" for peer, part in parts.items())
        yield (
            "**With 2,000 waiters for one lock**, some bindings reach only a part of their rate with 100 "
            f"waiters: {told}. So long a queue is rarely useful: let contenders try without waiting, or "
            "split the lock."
        )


def _readers(table: Table) -> Iterator[str]:
    """Describe the cost of a reader, which lists all holders."""
    few, many = table.figure("held-10", "rust"), table.figure("held-2000", "rust")
    if few and many and many < few / MORE:
        yield (
            "**A reader next to many holders** lists all of them, as with every recipe here: "
            f"{bytes_per_name(table):.0f} bytes for each. Next to 10 holders, Rust acquires and releases "
            f"{few:,.0f} times per second (Curator: {_rate(table, 'held-10', 'curator')}), and next to 2,000 "
            f"holders {many:,.0f} times (Curator: {_rate(table, 'held-2000', 'curator')})."
        )


def bytes_per_name(table: Table) -> float:
    """Return how many bytes a listing grows with each node."""
    received = []
    for number in (10, 2_000):
        entry = table.entry(f"held-{number}", "rust")
        received.append(0.0 if entry is None else float(entry["traffic"]["bytes_received"]))
    return (received[1] - received[0]) / (2_000 - 10)


def _bindings(table: Table) -> Iterator[str]:
    """Compare the bindings with the bare client, which sends the same requests without a lock."""
    free = {peer: table.ratio("free", peer, "raw") for peer in OURS}
    slow = {peer: ratio for peer, ratio in free.items() if ratio is not None and ratio < 0.9}
    if slow:
        told = ", ".join(f"{SHOWN[peer]} {_percent(ratio)}" for peer, ratio in slow.items())
        relay = table.ratio("free", "relay", "raw")
        hop = "" if relay is None else f"; the client alone, called from another thread: {_percent(relay)}"
        yield (
            "**The library's own thread takes time**: on loopback, zklock reaches only a part of the rate at "
            f"which the client alone sends the requests for a free lock: {told}{hop}. Between machines the "
            "difference is hardly visible ([in production](production.md))."
        )


def _databases(table: Table) -> Iterator[str]:
    """Compare with locks in a single server without replication."""
    ours, postgres, redis = (table.figure("free", peer) for peer in ("rust", "postgres", "redis"))
    if not (ours and postgres and redis) or max(postgres, redis) < ours * MORE:
        return
    tries, queue = (
        [_rate(table, name, peer) for peer in ("postgres", "redis", "rust")] for name in ("try", "wait-100")
    )
    yield (
        f"**PostgreSQL and Redis are faster on a free lock**: {postgres:,.0f} and {redis:,.0f} pairs per "
        f"second (zklock: {ours:,.0f}). The same is true of a try of a taken lock: {tries[0]} and {tries[1]} "
        f"per second (zklock: {tries[2]}). With 100 waiters, PostgreSQL makes {queue[0]} hand-offs per "
        f"second, zklock {queue[2]}, and Redis, whose waiters poll, {queue[1]}. A hand-off takes "
        f"{_trips(table, 'handoff-10ms', 'postgres')} round trips in PostgreSQL and "
        f"{_trips(table, 'handoff-10ms', 'rust')} in zklock."
    )


def _again(table: Table) -> Iterator[str]:
    """Describe re-entry."""
    curator, rust = table.figure("reenter", "curator"), table.figure("reenter", "rust")
    if not (curator and rust) or rust < curator * MORE:
        return
    others = ", ".join(f"{_rate(table, 'reenter', peer)} ns in {SHOWN[peer]}" for peer in OURS[1:])
    yield (
        f"**Re-entry is cheapest in Curator**: {curator:.0f} ns. zklock takes {rust:.0f} ns in Rust, "
        f"{others}, because it checks that the lock is still held, which Curator does not, and creates a "
        "separate lease. The locks of kazoo and go-zookeeper are not re-entrant."
    )
