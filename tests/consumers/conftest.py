"""Settings for the tests in this directory, in addition to tests/conftest.py: a longer timeout."""

from __future__ import annotations

from pathlib import Path

import pytest

START_LIMIT = 120
"""Timeout of a test in seconds: frameworks and bundlers start slowly."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here the longer timeout, unless it sets its own."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(START_LIMIT))
