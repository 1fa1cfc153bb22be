"""A pytest plugin: `--first-tier` leaves out the tests that tests/second-tier.toml reserves for `make
test-all`.

In addition, each scenario then runs on only one surface: see tests/scenarios/conftest.py.
"""

from __future__ import annotations

import pytest

import tiers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-tier", metavar="SUITE", help="leave out the second tier of this suite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    suite: str | None = config.getoption("--first-tier")
    if suite is None:
        return
    second = tiers.Second.of(suite)
    if left := [item for item in items if second.has(item.nodeid)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not second.has(item.nodeid)]
