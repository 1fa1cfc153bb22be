"""Runs kazoo's own tests unchanged against the embedded server.

This module imports kazoo's test files, so that pytest finds their classes here. Each class name is prefixed
with its file's name. kazoo_list.toml lists tests that do not pass or take long. `--server zookeeper` runs all
tests on a real server, without the list: if a test fails there too, the embedded server is not the cause.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from collections.abc import Iterator
from fnmatch import filter as matching
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from clients.fair_condition import FairCondition
from clients.kazoo_cluster import stand_ins
from clients.kazoo_list import FAILING, NEEDING, RACING, SOAKING

# All kazoo test files that use a server.
FILES = (
    *("barrier", "cache", "client", "connection", "counter", "election", "eventlet_handler"),
    *("gevent_handler", "interrupt", "lease", "lock", "partitioner", "party", "queue", "sasl", "watchers"),
)

# The files whose results count for the promised compatibility.
PROMISED = ("client", "lock", "watchers")

# kazoo reads these variables when a test creates its first client. Each class starts its own server.
os.environ |= {"ZOOKEEPER_VERSION": "3.9.5", "ZOOKEEPER_CLUSTER_SIZE": "1"}


def modules() -> dict[str, ModuleType]:
    """Return kazoo's test modules."""
    # Remove the variable `CI`, because with it kazoo assumes that it runs in its own continuous integration.
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    with patch.dict(os.environ, environment, clear=True):
        return {file: importlib.import_module(f"kazoo.tests.test_{file}") for file in FILES}


# Never restore the original modules, because all later imports must get the same modules.
sys.modules |= stand_ins()
harness: Any = importlib.import_module("kazoo.testing.harness")

CLASSES = {
    f"{file}.{kind.__name__}": kind
    for file, module in modules().items()
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, harness.KazooTestHarness)
    and kind.__module__ == module.__name__
}
globals().update(CLASSES)
contending: Any
for contending in (CLASSES["lock.KazooLockTests"], CLASSES["lock.TestSemaphore"]):
    contending.make_condition = staticmethod(FairCondition)

TESTS = {
    f"{name}.{method}"
    for name, kind in CLASSES.items()
    for method in unittest.TestLoader().getTestCaseNames(kind)
}


@pytest.fixture(scope="session", autouse=True)
def _last_server() -> Iterator[None]:
    """Stop the server that the last class can leave running."""
    yield
    if harness.CLUSTER is not None:
        harness.CLUSTER.terminate()


def test_the_list_names_tests_that_exist() -> None:
    listed = [*FAILING, *NEEDING, *RACING]
    assert set(listed) <= TESTS
    assert len(set(listed)) == len(listed)
    assert all(matching(TESTS, pattern) for pattern in SOAKING)


def test_nineteen_of_twenty_pass() -> None:
    expected = [name for name in TESTS - set(NEEDING) if name.partition(".")[0] in PROMISED]
    passing = [name for name in expected if name not in FAILING | RACING]
    assert len(passing) / len(expected) >= 0.95
    assert (len(expected), len(passing)) == (149, 148)
