"""The workloads of `make bench-cluster`, with the peers of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from locks.peers import PEERS, Peer, plain
from locks.workloads import Workload

DELAYS = (5, 40)
"""Round trips between clients and servers in milliseconds. Each direction is delayed by half of it."""

SLACK = 3
"""Time between the scheduled starts of two pairs of a free lock, divided by the time of their round trips.
Kazoo needs four round trips for a pair. If the time were shorter, a queue of late pairs would grow.
"""

SERVICE = 0.010
"""Additional time in seconds between two starts, for the servers."""

LOOKAHEAD = Peer(
    "lookahead", "the client alone, same requests", plain("lookahead"), only=frozenset({"handoff", "threads"})
)

OURS = ("rust", "python", "asyncio", "node")
BARE = ("raw", "relay", "lookahead")
"""The plain client with the same requests."""

THEIRS = ("curator", "kazoo", "go")
OTHERS = ("etcd", "postgres")

_CACHING = (*OURS, "curator")
_ALL = (*OURS, *BARE, *THEIRS)


@dataclass(frozen=True)
class Case:
    """A workload with a delay."""

    workload: Workload
    delay_ms: int
    # Names of the peers that take part.
    peers: tuple[str, ...]
    # The latencies that are reported. An acquire that waits in a queue is not reported, because it is as long
    # as the queue, and longer than a turn.
    latencies: tuple[str, ...]
    # The peer that sends the same requests as zklock, without a lock.
    bare: str | None = None
    # Factor for the length of its turns.
    longer: float = 1
    # Factor for the number of its turns.
    more: int = 1
    # True if the quick run includes it.
    quick: bool = False

    @property
    def name(self) -> str:
        """Return a name for files and options."""
        return f"{self.workload.name}-{self.delay_ms}ms"

    @property
    def shown(self) -> str:
        """Return a title."""
        return f"{self.workload.shown}, {self.delay_ms} ms"

    @property
    def delay(self) -> float:
        """Return the round trip in seconds."""
        return self.delay_ms / 1000


_FREE = Workload("free", "4 clients with a free lock each", clients=4, each=True)
"""Several clients, so that a turn has enough samples for its p99. The servers are still mostly idle."""
_HANDOFF = Workload("handoff", "hand-off among 10 clients", clients=10)
_SINGLE = ("acquire", "release")
_CONTENDED = ("handoff", "release")


def _cases(delay_ms: int) -> tuple[Case, ...]:
    # A pair of a free lock takes two round trips.
    open_loop = SLACK * 2 * delay_ms / 1000 + SERVICE
    # On the slower network, a turn of usual length has time for only a few scheduled pairs. On the faster
    # one, single late samples decide the p99, so there are more turns. Short ones are repeated at less cost.
    longer, more = (1, 3) if delay_ms == DELAYS[0] else (2, 1)
    free = replace(_FREE, period=open_loop)
    linger = replace(free, name="linger", shown="4 clients with a free lock each, linger of 1 s", linger=1)
    cohort = Workload("cohort", "10 contenders of 1 client, cohort of 10", contenders=10, cohort=10)
    readers = Workload("readers", "16 clients, 95 % readers", kind="readwrite", clients=16, reads=95)
    threads = Workload("threads", "64 threads, 1 client", contenders=64)
    cases = (
        Case(free, delay_ms, (*_ALL, *OTHERS), _SINGLE, bare="raw", quick=True, longer=longer, more=more),
        Case(linger, delay_ms, _CACHING, _SINGLE),
        Case(
            _HANDOFF, delay_ms, (*_ALL, *OTHERS), _CONTENDED, bare="lookahead", quick=True, more=min(more, 2)
        ),
        Case(cohort, delay_ms, _CACHING, _CONTENDED),
        Case(readers, delay_ms, _ALL, _SINGLE),
        Case(threads, delay_ms, _ALL, _CONTENDED, bare="lookahead"),
    )
    return tuple(replace(case, workload=replace(case.workload, latencies=True)) for case in cases)


CASES = tuple(case for delay_ms in DELAYS for case in _cases(delay_ms))

WARMING = [case for case in CASES if case.name in ("free-5ms", "handoff-5ms")]
"""The cases whose workloads warm up the servers."""


def _peer(peer: Peer) -> Peer:
    # The plain client without a lock has no hand-off.
    only = frozenset({"free"}) if peer.name in BARE else frozenset[str]()
    return peer if peer is LOOKAHEAD else replace(peer, only=only)


ALL_PEERS = tuple(_peer(peer) for peer in (*PEERS, LOOKAHEAD) if peer.name in (*_ALL, *OTHERS))

(WARMER,) = (peer for peer in ALL_PEERS if peer.name == "rust")
"""The program that warms up the servers."""


def members(case: Case, peers: tuple[Peer, ...] = ALL_PEERS) -> list[Peer]:
    """Return the peers that take part in a case."""
    return [peer for peer in peers if peer.name in case.peers and peer.does(case.workload)]
