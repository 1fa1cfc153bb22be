"""The programs that benchmarks start through the tests' worker protocol (`tests/worker-protocol.md`).

They are the workers of the tests, with optimized builds of zklock, and two programs of the benchmarks.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from harness.built import NotBuilt
from harness.paths import CLASSES, GO_WORKER, JARS, JAVA, NODE, PYTHON, TESTS
from harness.surfaces import Surface
from harness.worker import Worker
from locks.peers import DIST, TARGET


@dataclass(frozen=True)
class Program(Surface):
    """A worker program of a benchmark."""

    shown: str = ""
    # A file that it needs to start.
    needs: Path | None = None
    env: dict[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        """Return why it cannot be started, or None if it can."""
        if shutil.which(self.command[0]) is None:
            return f"{Path(self.command[0]).name} is not there"
        return None if self.needs is None or self.needs.exists() else f"{self.needs.name} is not built"

    def require(self) -> None:
        """Raise if it cannot be started."""
        if (what := self.missing()) is not None:
            raise NotBuilt(what)

    def start(self) -> Worker:
        """Start a process."""
        return Worker(self, env=self.env)


def _java(*options: str) -> tuple[str, ...]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    jars = f"{CLASSES}:{JARS}/*"
    return (
        JAVA,
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        *options,
        quiet,
        "-cp",
        jars,
        "zklock.CuratorWorker",
    )


# The JVM returns unused memory after each full collection, so that its size shows what the program uses.
_COMPACT = ("-Xmx1g", "-XX:MinHeapFreeRatio=5", "-XX:MaxHeapFreeRatio=10")


_IN_PYTHON = {"PYTHONPATH": str(TARGET / "python")}
_IN_NODE = {"ZKLOCK_NODE_PACKAGE": str(TARGET / "node")}
_NODE_WORKER = str(TESTS / "workers" / "node_worker.mjs")

PROGRAMS = {
    program.name: program
    for program in (
        Program("rust", (str(DIST / "zklock-worker"),), "", shown="zklock, Rust"),
        Program(
            "python", (PYTHON, "-m", "workers.python_worker"), "", shown="zklock, Python", env=_IN_PYTHON
        ),
        Program("node", (NODE, _NODE_WORKER), "", shown="zklock, Node", env=_IN_NODE),
        Program(
            "curator",
            _java(*_COMPACT),
            "",
            shown="Curator",
            needs=CLASSES / "zklock" / "CuratorWorker.class",
        ),
        Program("kazoo", (PYTHON, "-m", "peers.kazoo_worker"), "", shown="kazoo"),
        Program("go", (str(GO_WORKER),), "", shown="go-zookeeper"),
        Program("etcd", (str(TARGET / "etcd-line"),), "", shown="etcd"),
        Program("alone", (str(DIST / "bench-alone"),), "", shown="the client alone"),
    )
}

OURS = ("rust", "python", "node")
