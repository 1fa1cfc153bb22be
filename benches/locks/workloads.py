"""The table of workloads. `benches/README.md` describes the fields that a worker receives."""

from __future__ import annotations

from dataclasses import dataclass

DELAY = 0.010
"""Total delay of a request and its reply in the delaying proxy, in seconds.

A round trip takes longer, because the proxy itself, the server and the loopback take time. It is therefore
measured separately.
"""

CLIENTS = 20
"""Number of clients that share many contenders."""


@dataclass(frozen=True)
class Workload:
    """Contenders that repeat the same operation."""

    name: str
    shown: str
    op: str = "pair"
    kind: str = "mutex"
    clients: int = 1
    # Number of contenders of each client.
    contenders: int = 1
    # True if each contender has a separate lock.
    each: bool = False
    # Percentage of acquires for reading.
    reads: float = 0
    permits: int = 0
    # Options of zklock's locks: the maximum number of successive holds on one node, and the time in seconds
    # for which the client keeps a node after a release.
    cohort: int = 0
    linger: float = 0
    # Number of additional contenders that hold the lock all the time. Several holders are readers.
    held: int = 0
    # True if a proxy delays each direction by 5 ms.
    delayed: bool = False
    # True if the quick run includes it.
    quick: bool = False
    # True if requests are counted.
    counted: bool = True
    # Factor for the length of a turn in a full run. A longer turn shows less of the first moments after a
    # pause, in which caches are cold and an interpreter that was idle has given back memory.
    stretch: float = 1.0
    # True if the worker measures the latency of each operation. `period` is the time in seconds between the
    # scheduled starts of two pairs; without it, a pair starts when the previous one is complete.
    latencies: bool = False
    period: float = 0

    @property
    def total(self) -> int:
        """Return the total number of contenders."""
        return self.clients * self.contenders

    @property
    def queues(self) -> bool:
        """Return whether all contenders queue for one lock, each with its own node."""
        alone = self.each or self.cohort > 0
        return self.op == "pair" and self.kind == "mutex" and self.total > 1 and not alone

    @property
    def caches(self) -> bool:
        """Return whether locks are handed on or kept without a request."""
        return self.cohort > 0 or self.linger > 0

    @property
    def unit(self) -> str:
        """Return the unit of the figures."""
        if self.op == "reenter":
            return "ns"
        return "round trips" if self.delayed else "1/s"

    def figure(self, rate: float, round_trip: float | None) -> float:
        """Return the figure for a rate per second and a round trip in seconds."""
        if self.unit == "1/s":
            return rate
        if self.unit == "ns":
            return 1e9 / rate
        assert round_trip is not None
        return 1 / rate / round_trip

    def task(self, hosts: str, path: str) -> dict[str, object]:
        """Return a worker's task."""
        measured = {"latencies": True, "period": self.period} if self.latencies else {}
        return measured | {
            "hosts": hosts,
            "path": path,
            "op": self.op,
            "kind": self.kind,
            "clients": self.clients,
            "contenders": self.contenders,
            "each": self.each,
            "reads": self.reads,
            "permits": self.permits,
            "cohort": self.cohort,
            "linger": self.linger,
            "held": self.held,
        }


def _waiting(number: int) -> Workload:
    clients = min(number, CLIENTS)
    return Workload(
        f"wait-{number}",
        f"{number:,} contenders, {clients} clients",
        clients=clients,
        contenders=number // clients,
    )


def _held(number: int) -> Workload:
    return Workload(
        f"held-{number}",
        f"reader next to {number:,} holders",
        kind="readwrite",
        reads=100,
        held=number,
    )


WORKLOADS = (
    Workload("free", "free lock, 1 client", quick=True, stretch=2.25),
    Workload("threads", "64 threads, 1 client", contenders=64, quick=True),
    Workload("clients", "64 clients", clients=64, quick=True),
    Workload("each", "64 threads, separate locks", contenders=64, each=True),
    Workload("readers", "16 clients, 95 % readers", kind="readwrite", clients=16, reads=95, quick=True),
    Workload("kept", "free lock, 1 client, linger of 1 s", linger=1),
    Workload("handed-on", "64 threads, 1 client, cohort of 64", contenders=64, cohort=64),
    Workload(
        "kept-readers",
        "16 clients, 99.9 % readers, linger of 1 s",
        kind="readwrite",
        clients=16,
        reads=99.9,
        linger=1,
    ),
    Workload("semaphore", "16 clients, 4 permits", kind="semaphore", clients=16, permits=4),
    Workload("try", "try of a taken lock, 1 client", op="try", held=1, quick=True),
    Workload("reenter", "re-entry", op="reenter", counted=False, quick=True),
    _waiting(10),
    _waiting(100),
    _waiting(500),
    _waiting(2000),
    _held(10),
    _held(100),
    _held(2000),
    Workload("free-10ms", "free lock", delayed=True),
    Workload("handoff-10ms", "hand-off among 10 clients", clients=10, delayed=True, quick=True),
    Workload("readers-10ms", "reader next to 10 holders", kind="readwrite", reads=100, held=10, delayed=True),
    Workload("semaphore-10ms", "free permit", kind="semaphore", permits=4, delayed=True),
    Workload("try-10ms", "try of a taken lock", op="try", held=1, delayed=True),
)
