"""The fixture `zklock_server`. A package of its own, so that pytest loads it without importing zklock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zklock.testing import Server


@pytest.fixture
def zklock_server() -> Iterator[Server]:
    """A ZooKeeper server for this test alone, within the process: a `zklock.testing.Server`."""
    from zklock.testing import Server

    with Server() as server:
        yield server
