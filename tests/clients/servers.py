"""Servers for the tests of other clients: the embedded server, and a real ZooKeeper for comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.embedded import ZOOKEEPER, EmbeddedServer
from harness.server import Settings, Standalone

# Enables TTL nodes, which the embedded server always has.
_REAL = ("-Dzookeeper.extendedTypesEnabled=true",)


def is_real(config: pytest.Config) -> bool:
    """Return whether the user chose the real server.

    The default for these tests is always the embedded server.
    """
    return bool(config.getoption("--server") == ZOOKEEPER)


def client_server(settings: Settings, *, real: bool) -> Standalone:
    """Return a server that is not started yet."""
    return Standalone(replace(settings, jvm=_REAL)) if real else EmbeddedServer(settings)
