"""The servers that clients are run on: the embedded one, and a real ZooKeeper to compare it with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.embedded import ZOOKEEPER, EmbeddedServer
from harness.server import Settings, Standalone

# What the embedded server has without being asked: TTL nodes.
_REAL = ("-Dzookeeper.extendedTypesEnabled=true",)


def is_real(config: pytest.Config) -> bool:
    """Whether this run is for comparison. Nowhere else is the embedded server the default."""
    return bool(config.getoption("--server") == ZOOKEEPER)


def client_server(settings: Settings, *, real: bool) -> Standalone:
    """A server that is not started yet."""
    return Standalone(replace(settings, jvm=_REAL)) if real else EmbeddedServer(settings)
