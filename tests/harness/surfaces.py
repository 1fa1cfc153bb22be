"""The surfaces under test and the peers: how each one's worker is started, and what sets it apart."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from harness.paths import CLASSES, GO_WORKER, JARS, JAVA, NODE, NODE_PACKAGE, PYTHON, RUST_WORKER, TESTS


@dataclass(frozen=True)
class Surface:
    """One worker program."""

    name: str
    command: tuple[str, ...]
    # What must exist before it can start.
    needs: Path
    # How a pending acquire is cancelled: by command, or by SIGINT to the owner `main`.
    cancels_by_signal: bool = False
    # A module that this interpreter must be able to import.
    module: str | None = None

    @property
    def cancellable_owner(self) -> str:
        """An owner whose acquire `Worker.cancel` can reach."""
        return "main" if self.cancels_by_signal else "cancelled"

    def missing(self) -> str | None:
        """What is not built, if anything."""
        if not self.needs.exists():
            return f"{self.name}: {self.needs} does not exist"
        if self.module is not None and importlib.util.find_spec(self.module) is None:
            return f"{self.name}: {PYTHON} has no module {self.module}"
        return None


def _java() -> tuple[str, ...]:
    flags = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return (JAVA, *flags, quiet, "-cp", f"{CLASSES}:{JARS}/*", "zklock.CuratorWorker")


# The four that every scenario runs on.
SURFACES = {
    surface.name: surface
    for surface in (
        Surface("rust", (str(RUST_WORKER),), RUST_WORKER),
        Surface(
            "python",
            (PYTHON, "-m", "workers.python_worker"),
            TESTS / "workers" / "python_worker.py",
            cancels_by_signal=True,
            module="zklock",
        ),
        Surface(
            "aio",
            (PYTHON, "-m", "workers.aio_worker"),
            TESTS / "workers" / "aio_worker.py",
            module="zklock",
        ),
        Surface(
            "node",
            (NODE, str(TESTS / "workers" / "node_worker.mjs")),
            NODE_PACKAGE / "dist" / "index.js",
        ),
    )
}

PEERS = {
    surface.name: surface
    for surface in (
        Surface("curator", _java(), CLASSES / "zklock" / "CuratorWorker.class"),
        Surface("go", (str(GO_WORKER),), GO_WORKER),
        Surface("kazoo", (PYTHON, "-m", "peers.kazoo_worker"), TESTS / "peers" / "kazoo_worker.py"),
    )
}

ALL = {**SURFACES, **PEERS}
