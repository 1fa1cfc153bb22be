"""Sentences about what other peers do better and about limits. Each appears only if the
figures support it.
"""

from __future__ import annotations

from collections.abc import Iterator

from locks.results import Table
from locks.shown import OURS, SHOWN

MORE = 1.05
"""Factor from which a difference counts. Smaller ones are within the spread of turns."""


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
        f"take the lock {_rate(table, 'clients', 'rust')} times a second in Rust, "
        f"{_rate(table, 'clients', 'go')} with go-zookeeper, {_rate(table, 'clients', 'recipe')} with the "
        f"recipe on node-zookeeper-client, for {requests:.1f} requests instead of {theirs:.1f}. A waiter of "
        "zklock watches the *two* nodes before its own. That is what saves a round trip at each hand-off; on "
        "loopback, where a round trip costs nothing, only the requests are left of it."
    )


def _long_queues(table: Table) -> Iterator[str]:
    """Compare the rates of a long queue with those of a shorter one."""
    parts = {}
    for peer in OURS:
        few, many = table.figure("wait-100", peer), table.figure("wait-2000", peer)
        if few and many and many / few < 0.8:
            parts[peer] = many / few
    if parts:
        told = " and ".join(f"{SHOWN[peer]} {_percent(part)}" for peer, part in parts.items())
        yield (
            "**With 2,000 waiters for one lock**, some are slower than with 100: of that rate, "
            f"{told} is left. A queue of that length is rarely what anybody wants: let them try without "
            "waiting, or split the lock."
        )


def _readers(table: Table) -> Iterator[str]:
    """Describe the cost of a reader, which lists all holders."""
    few, many = table.figure("held-10", "rust"), table.figure("held-2000", "rust")
    if few and many and many < few / MORE:
        yield (
            "**A reader beside many that hold** lists them all, as with every recipe here: "
            f"{bytes_per_name(table):.0f} bytes for each. Beside 10 of them, acquire and release take place "
            f"{few:,.0f} times a second in Rust ({_rate(table, 'held-10', 'curator')} with Curator), beside "
            f"2,000 {many:,.0f} times ({_rate(table, 'held-2000', 'curator')})."
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
        hop = "" if relay is None else f"; the client alone, asked from another thread, {_percent(relay)}"
        yield (
            "**The library's own thread costs something**: of the rate at which the client alone sends the "
            f"requests of a free lock on loopback, a part is reached: {told}{hop}. Between machines it can "
            "hardly be seen ([round trips](#round-trips))."
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
        f"**PostgreSQL and Redis are faster on a free lock**: {postgres:,.0f} and {redis:,.0f} pairs a "
        f"second, zklock {ours:,.0f}; and on a busy try: {tries[0]} and {tries[1]}, zklock {tries[2]}. So is "
        f"PostgreSQL where 100 wait ({queue[0]}; zklock {queue[2]}; Redis, whose waiters poll, {queue[1]}). "
        f"A hand-off takes {_trips(table, 'handoff-10ms', 'postgres')} round trips in PostgreSQL, "
        f"{_trips(table, 'handoff-10ms', 'rust')} in zklock."
    )


def _again(table: Table) -> Iterator[str]:
    """Describe re-entry."""
    curator, rust = table.figure("reenter", "curator"), table.figure("reenter", "rust")
    if not (curator and rust) or rust < curator * MORE:
        return
    others = ", ".join(f"{_rate(table, 'reenter', peer)} ns in {SHOWN[peer]}" for peer in OURS[1:])
    yield (
        f"**Entering again is cheapest in Curator**: {curator:.0f} ns. With zklock it takes {rust:.0f} ns in "
        f"Rust, {others}: it looks whether the lock is still held, which Curator does not, and makes a lease "
        "of its own. kazoo's and go-zookeeper's locks cannot be entered again."
    )
