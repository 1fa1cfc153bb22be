"""What is measured: a table. `benches/README.md` says what the fields mean to a worker."""

from __future__ import annotations

from dataclasses import dataclass

DELAY = 0.010
"""How long the delaying proxy holds back a request and its reply together, in seconds.

A round trip through it takes longer, by the time of the proxy itself, the server and the loopback: so it is
measured beside.
"""

CLIENTS = 20
"""How many clients share many contenders."""


@dataclass(frozen=True)
class Workload:
    """Contenders that do the same, over and over."""

    name: str
    shown: str
    op: str = "pair"
    kind: str = "mutex"
    clients: int = 1
    # Of each client.
    contenders: int = 1
    # Whether each contender has a lock of its own.
    each: bool = False
    # The percentage of acquires that are for reading.
    reads: float = 0
    permits: int = 0
    # Of ours alone: how many holds may follow each other on one node, for how many seconds a node is kept.
    cohort: int = 0
    linger: float = 0
    # How many holds there are besides; all but one are readers.
    held: int = 0
    # Whether there is a proxy that takes 5 ms each way.
    delayed: bool = False
    # Whether the quick run has it too.
    quick: bool = False
    # Whether requests are counted.
    counted: bool = True

    @property
    def total(self) -> int:
        """How many contenders there are."""
        return self.clients * self.contenders

    @property
    def queues(self) -> bool:
        """Whether all contenders but one wait in a queue for one lock, with a node each."""
        alone = self.each or self.cohort > 0
        return self.op == "pair" and self.kind == "mutex" and self.total > 1 and not alone

    @property
    def caches(self) -> bool:
        """Whether locks are handed on or kept without a request."""
        return self.cohort > 0 or self.linger > 0

    @property
    def unit(self) -> str:
        """What the figures are."""
        if self.op == "reenter":
            return "ns"
        return "round trips" if self.delayed else "1/s"

    def figure(self, rate: float, round_trip: float | None) -> float:
        """The figure for so many pairs, tries or hand-offs a second, with a round trip of so many seconds."""
        if self.unit == "1/s":
            return rate
        if self.unit == "ns":
            return 1e9 / rate
        assert round_trip is not None
        return 1 / rate / round_trip

    def task(self, hosts: str, path: str) -> dict[str, object]:
        """What a worker is told."""
        return {
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
        f"a reader beside {number:,} that hold",
        kind="readwrite",
        reads=100,
        held=number,
    )


WORKLOADS = (
    Workload("free", "free lock, 1 client", quick=True),
    Workload("threads", "64 threads, 1 client", contenders=64, quick=True),
    Workload("clients", "64 clients", clients=64, quick=True),
    Workload("each", "64 threads, a lock each", contenders=64, each=True),
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
    Workload("try", "busy try, 1 client", op="try", held=1, quick=True),
    Workload("reenter", "enter again", op="reenter", counted=False, quick=True),
    _waiting(10),
    _waiting(100),
    _waiting(500),
    _waiting(2000),
    _held(10),
    _held(100),
    _held(2000),
    Workload("free-10ms", "free lock", delayed=True),
    Workload("handoff-10ms", "hand-off among 10 clients", clients=10, delayed=True, quick=True),
    Workload(
        "readers-10ms", "a reader beside 10 that hold", kind="readwrite", reads=100, held=10, delayed=True
    ),
    Workload("semaphore-10ms", "free permit", kind="semaphore", permits=4, delayed=True),
    Workload("try-10ms", "busy try", op="try", held=1, delayed=True),
)
