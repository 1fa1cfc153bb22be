"""The table of peers: the libraries and designs that the benchmark compares."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from harness.paths import JARS, JAVA, NODE
from locks.workloads import Workload

BENCHES = Path(__file__).resolve().parent.parent
ROOT = BENCHES.parent
WORKERS = BENCHES / "locks" / "workers"
TARGET = BENCHES / "target"
# Cargo's products with the profile of the published packages.
DIST = ROOT / "target" / "dist"

MUTEX = frozenset({"mutex"})
ALL_KINDS = frozenset({"mutex", "readwrite", "semaphore"})


# The peers of the workloads that use the options `cohort` and `linger`. With these options zklock passes a
# lock to the next local waiter, or keeps it, without a request. No other library has such options; Curator is
# included for comparison.
CACHING = ("rust", "python", "asyncio", "node", "curator")


@dataclass(frozen=True)
class Peer:
    """A worker program and its abilities."""

    name: str
    shown: str
    command: tuple[str, ...]
    kinds: frozenset[str] = MUTEX
    ops: frozenset[str] = frozenset({"pair"})
    server: str = "zookeeper"
    # Maximum number of contenders and holders.
    most: int = 2_000
    # Names of the workloads in which the peer takes part. If empty, it takes part in every workload that it
    # supports.
    only: frozenset[str] = frozenset()
    # Factor for the duration of its warm-up.
    warm: float = 1.0
    # True if waiters have nodes. The driver counts these nodes to find out when all contenders wait.
    queues: bool = True
    # True if waiters poll, which would disturb the turns of other peers.
    polls: bool = False
    env: dict[str, str] = field(default_factory=dict)
    # A file that it needs to start.
    needs: Path | None = None

    def missing(self) -> str | None:
        """Return why it cannot take part, or None if it can."""
        if shutil.which(self.command[0]) is None:
            return f"{Path(self.command[0]).name} is not there"
        return None if self.needs is None or self.needs.exists() else f"{self.needs.name} is not built"

    def does(self, workload: Workload) -> bool:
        """Return whether it takes part in a workload."""
        return (
            workload.kind in self.kinds
            and workload.op in self.ops
            and max(workload.total, workload.held) <= self.most
            and (not self.only or workload.name in self.only)
            and (not workload.caches or self.name in CACHING)
        )


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, str(WORKERS / "python" / f"{module}.py"))


def _node(script: str) -> tuple[str, ...]:
    return (NODE, str(WORKERS / "node" / script))


def plain(design: str) -> tuple[str, ...]:
    """Return the command of a design on the plain client."""
    # `{task}` is replaced by the task.
    return (str(DIST / "bench-plain"), "{task}", design)


_OURS = {"PYTHONPATH": str(TARGET / "python")}
_EVERYTHING = frozenset({"pair", "try", "reenter"})
_TRIES = frozenset({"pair", "try"})
# Workloads in which the classic designs are compared.
_QUEUES = frozenset(
    {"free", "clients", "wait-10", "wait-100", "wait-500", "wait-2000", "handoff-10ms", "free-10ms"}
)
_YARDSTICK = frozenset({"free", "threads", "clients", "each", "free-10ms"})
# Workloads with one client.
_RELAYED = frozenset({"free", "threads", "each"})
# Warm-up factor for Node and Java, whose compilers optimize hot code. In Node, the processor time of a pair
# falls for the first four seconds.
_COMPILED_WARM = 6.0
_JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")

# Not a real peer: it sends single reads one after another, to measure the round trip of a workload with a
# network delay.
BARE = Peer("bare", "a bare request", plain("bare"), queues=False)

PEERS = (
    Peer("rust", "zklock, Rust", (str(DIST / "bench-zklock"),), ALL_KINDS, _EVERYTHING),
    Peer("python", "zklock, Python", _python("zklock_threads"), ALL_KINDS, _EVERYTHING, env=_OURS),
    Peer("asyncio", "zklock, asyncio", _python("zklock_tasks"), ALL_KINDS, _EVERYTHING, env=_OURS),
    Peer(
        "node",
        "zklock, Node",
        _node("zklock.mjs"),
        ALL_KINDS,
        _EVERYTHING,
        warm=_COMPILED_WARM,
        env={"ZKLOCK_BENCH_PACKAGE": str(TARGET / "node")},
    ),
    Peer(
        "curator",
        "Curator",
        (JAVA, *_JVM, "-cp", f"{TARGET / 'classes'}:{JARS}/*", "zklock.bench.Bench"),
        ALL_KINDS,
        _EVERYTHING,
        warm=_COMPILED_WARM,
        needs=TARGET / "classes" / "zklock" / "bench" / "Bench.class",
    ),
    # Kazoo's waiters list all other waiters, and each has a thread.
    Peer("kazoo", "kazoo", _python("kazoo_threads"), ALL_KINDS, _TRIES, most=500),
    Peer("go", "go-zookeeper", (str(TARGET / "zookeeper"),)),
    Peer("recipe", "node-zookeeper-client", _node("recipe.mjs"), warm=_COMPILED_WARM, most=500),
    Peer("raw", "the client alone", plain("raw"), only=_YARDSTICK, queues=False),
    Peer(
        "relay", "the client alone, called from another thread", plain("relay"), only=_RELAYED, queues=False
    ),
    Peer("queue", "watch the predecessor", plain("queue"), only=_QUEUES),
    Peer("spin", "spin on create", plain("spin"), only=_QUEUES, queues=False, polls=True),
    Peer("herd", "watch one node", plain("herd"), only=_QUEUES, queues=False),
    Peer(
        "postgres",
        "PostgreSQL",
        _python("postgres_threads"),
        ops=_TRIES,
        server="postgres",
        most=100,
        queues=False,
    ),
    Peer(
        "redis",
        "Redis",
        _python("redis_threads"),
        ops=_TRIES,
        server="redis",
        most=500,
        queues=False,
        polls=True,
    ),
    Peer("etcd", "etcd", (str(TARGET / "etcd"),), ops=_TRIES, server="etcd", most=500, queues=False),
)
