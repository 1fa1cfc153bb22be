"""Replaces the cluster of kazoo's tests with the embedded server, or with a real ZooKeeper for comparison.

`kazoo.testing.harness` creates a `ZookeeperCluster`, which starts and stops its servers. Only this class and
its module are replaced. The original class cannot start without certificates and key stores, and sleeps for
two seconds at each start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from clients.servers import client_server
from harness.server import Settings, Standalone

# The same times as in kazoo's configuration of its servers.
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
        """Host and port, which stay the same until `destroy`."""
        return self._known().hosts

    def run(self) -> None:
        """Start the server, unless it runs."""
        if not self.running:
            self._known().start()
            self.running = True

    def stop(self) -> None:
        """Stop the server. A real server keeps its nodes and sessions."""
        if self.running:
            self._known().stop()
            self.running = False

    def destroy(self) -> None:
        """Stop the server and delete its data."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self.running = False


class Cluster:
    """Independent servers, with the members of `ZookeeperCluster` that the tests use."""

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
    """Return replacements for modules that kazoo's tests import."""
    common: Any = ModuleType("kazoo.testing.common")
    common.ZookeeperCluster = Cluster
    # The only function of objgraph that the tests use: the number of objects of a type.
    objgraph: Any = ModuleType("objgraph")
    objgraph.count = lambda name: sum(type(found).__name__ == name for found in gc.get_objects())
    return {"kazoo.testing.common": common, "objgraph": objgraph}
