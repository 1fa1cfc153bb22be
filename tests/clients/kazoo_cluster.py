"""What kazoo's tests take for their cluster: the embedded server, or one real ZooKeeper to compare it with.

`kazoo.testing.harness` makes a `ZookeeperCluster`, and starts and stops its servers through that. Only this
class is replaced, with the module that it comes from: that one would want certificates and key stores before
anything runs, and would sleep for two seconds at each start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from clients.servers import client_server
from harness.server import Settings, Standalone

# Times as kazoo configures its servers.
SETTINGS = Settings(tick=2_000, min_session_timeout=4_000, max_session_timeout=40_000)


class Managed:
    """One server, with the members of kazoo's `ManagedZooKeeper` that its tests use."""

    def __init__(self, *, real: bool) -> None:
        self._real = real
        self._process: Standalone | None = None
        self.running = False

    def _known(self) -> Standalone:
        if self._process is None:
            self._process = client_server(SETTINGS, real=self._real)
        return self._process

    @property
    def address(self) -> str:
        """Host and port: the same until it is destroyed."""
        return self._known().hosts

    def run(self) -> None:
        """Start it, unless it runs."""
        if not self.running:
            self._known().start()
            self.running = True

    def stop(self) -> None:
        """Stop it. A real server keeps its nodes and sessions."""
        if self.running:
            self._known().stop()
            self.running = False

    def destroy(self) -> None:
        """End it with all that it has."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self.running = False


class Cluster:
    """Servers that know nothing of each other, with the members of `ZookeeperCluster` that the tests use."""

    real = False

    def __init__(self, size: int, **_configuration: Any) -> None:
        self._servers = [Managed(real=self.real) for _ in range(size)]

    def __getitem__(self, index: int) -> Managed:
        return self._servers[index]

    def __iter__(self) -> Iterator[Managed]:
        return iter(self._servers)

    def start(self) -> None:
        for server in self:
            server.run()

    def terminate(self) -> None:
        for server in self:
            server.destroy()

    def get_logs(self) -> list[str]:
        return []


def stand_ins() -> dict[str, ModuleType]:
    """The modules that the tests import, and that are not installed or replaced."""
    common: Any = ModuleType("kazoo.testing.common")
    common.ZookeeperCluster = Cluster
    # One function of a package: how many objects there are of a type.
    objgraph: Any = ModuleType("objgraph")
    objgraph.count = lambda name: sum(type(found).__name__ == name for found in gc.get_objects())
    return {"kazoo.testing.common": common, "objgraph": objgraph}
