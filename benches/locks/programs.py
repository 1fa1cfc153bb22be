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
from locks.peers import DIST, PUBLISHED, RELEASE, TARGET


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


def _ours(built: Path, packages: Path) -> tuple[Program, ...]:
    """Return the programs with zklock, from directories of cargo's products and of packages."""
    in_python = {"PYTHONPATH": str(packages / "python")}
    in_node = {"ZKLOCK_NODE_PACKAGE": str(packages / "node")}
    worker = str(TESTS / "workers" / "node_worker.mjs")
    return (
        Program("rust", (str(built / "zklock-worker"),), "", shown="zklock, Rust"),
        Program("python", (PYTHON, "-m", "workers.python_worker"), "", shown="zklock, Python", env=in_python),
        Program("node", (NODE, worker), "", shown="zklock, Node", env=in_node),
    )


PROGRAMS = {
    program.name: program
    for program in (
        *_ours(RELEASE, TARGET),
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
        Program("alone", (str(RELEASE / "bench-alone"),), "", shown="the client alone"),
    )
}

# The same programs, but with zklock built as its packages are published.
AS_PUBLISHED = PROGRAMS | {program.name: program for program in _ours(DIST, PUBLISHED)}

OURS = ("rust", "python", "node")
