"""Fixtures of the Python tests. They use the harness in the repository's `tests/`, which starts ZooKeeper."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from harness.built import NotBuilt
from harness.embedded import new_server
from harness.observer import Observer
from harness.server import Standalone
from harness.skipping import pytest_runtest_call as pytest_runtest_call
from harness.skipping import pytest_runtest_setup as pytest_runtest_setup
from harness.surfaces import SURFACES

# Check before the import, so that a missing extension gives a clear error.
try:
    SURFACES["python"].require()
except NotBuilt as problem:
    raise pytest.UsageError(str(problem)) from None

import zklock
from zklock import aio


@pytest.fixture(scope="session")
def server() -> Iterator[Standalone]:
    """Provide the server that most tests share. Do not stop it."""
    with new_server() as standalone:
        yield standalone


@pytest.fixture(scope="session")
def hosts(server: Standalone) -> str:
    """Return the connect string of the shared server."""
    return server.hosts


@pytest.fixture(scope="session")
def observer(hosts: str) -> Iterator[Observer]:
    """Provide an observer, which reads the nodes in a session of its own."""
    with Observer(hosts) as bystander:
        yield bystander


@pytest.fixture
def path() -> str:
    """Return a lock path that no other test uses."""
    return f"/python/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(hosts: str) -> Iterator[zklock.Client]:
    """Provide a client for one test."""
    with zklock.Client(hosts) as made:
        yield made


@pytest.fixture
def other(hosts: str) -> Iterator[zklock.Client]:
    """Provide a second client, as in another process."""
    with zklock.Client(hosts) as made:
        yield made


Body = Callable[[aio.Client], Coroutine[Any, Any, None]]
Run = Callable[[Body], None]


@pytest.fixture
def run(hosts: str) -> Run:
    """Return a function that runs a test's coroutine with a client."""

    def run_one(body: Body) -> None:
        async def main() -> None:
            async with aio.Client(hosts) as client, asyncio.timeout(30):
                await body(client)

        asyncio.run(main(), debug=True)

    return run_one
