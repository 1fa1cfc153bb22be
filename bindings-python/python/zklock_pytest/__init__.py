"""The fixture `zklock_server`, in a separate package that pytest can load without importing zklock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zklock.testing import Server


@pytest.fixture
def zklock_server() -> Iterator[Server]:
    """Provide a ZooKeeper server in this process for a single test: a `zklock.testing.Server`."""
    from zklock.testing import Server

    with Server() as server:
        yield server
