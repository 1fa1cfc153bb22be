"""Commands that start the workers of all surfaces (bindings and Rust API) and of peers (other libraries)."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from harness.built import NotBuilt, missing, require
from harness.paths import CLASSES, GO_WORKER, JARS, JAVA, NODE, PREVIOUS_WORKER, PYTHON, RUST_WORKER, TESTS


@dataclass(frozen=True)
class Surface:
    """One worker program."""

    name: str
    command: tuple[str, ...]
    # Name in tools/parts.py of the part that must be built before the worker can start.
    part: str
    # True if SIGINT cancels a pending acquire of the owner `main`. On other surfaces, a command cancels it.
    cancels_by_signal: bool = False
    # Module that this interpreter must be able to import.
    module: str | None = None

    @property
    def cancellable_owner(self) -> str:
        """Owner whose acquire `Worker.cancel` can cancel."""
        return "main" if self.cancels_by_signal else "cancelled"

    def missing(self) -> str | None:
        """Return the reason why the worker cannot start, or None."""
        if self.module is not None and importlib.util.find_spec(self.module) is None:
            return f"{self.name}: {PYTHON} has no module {self.module}; run `make {self.part}`"
        return missing(self.part)

    def require(self) -> None:
        """Raise if the worker cannot or must not be started."""
        if (what := self.missing()) is not None:
            raise NotBuilt(what)
        require(self.part)


def _java() -> tuple[str, ...]:
    flags = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return (JAVA, *flags, quiet, "-cp", f"{CLASSES}:{JARS}/*", "zklock.CuratorWorker")


# The four surfaces that every scenario runs on.
SURFACES = {
    surface.name: surface
    for surface in (
        Surface("rust", (str(RUST_WORKER),), "worker"),
        Surface(
            "python",
            (PYTHON, "-m", "workers.python_worker"),
            "python",
            cancels_by_signal=True,
            module="zklock",
        ),
        Surface("aio", (PYTHON, "-m", "workers.aio_worker"), "python", module="zklock"),
        Surface("node", (NODE, str(TESTS / "workers" / "node_worker.mjs")), "node"),
    )
}

PEERS = {
    surface.name: surface
    for surface in (
        Surface("curator", _java(), "java"),
        Surface("go", (str(GO_WORKER),), "go"),
        Surface("kazoo", (PYTHON, "-m", "peers.kazoo_worker"), "venv", module="kazoo"),
    )
}

# The Rust worker of the last release. All languages share the core's wire protocol, so one is enough.
PREVIOUS = Surface("previous", (str(PREVIOUS_WORKER),), "previous")

ALL = {**SURFACES, **PEERS, PREVIOUS.name: PREVIOUS}
