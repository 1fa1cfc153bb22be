"""Chooses the server for the clients, and marks the kazoo tests that `kazoo_list.toml` lists."""

from __future__ import annotations

import pytest

from clients.kazoo_cluster import Cluster
from clients.kazoo_list import FAILING, NEEDING, NOT_RUN, RACING, soaks
from clients.servers import is_real
from harness.built import NotBuilt, require


def pytest_configure(config: pytest.Config) -> None:
    # Fail early: otherwise hundreds of tests fail for this reason.
    try:
        require("jars" if is_real(config) else "embedded")
    except NotBuilt as problem:
        raise pytest.UsageError(str(problem)) from None
    Cluster.real = is_real(config)
    # Warnings of kazoo and eventlet, which these projects must fix.
    config.addinivalue_line("filterwarnings", "ignore")


# This hook must run before the hook that deselects soak tests, because it sets the soak marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark kazoo's tests that are in the list.

    On a real server the list does not apply: that run shows which tests fail there too.
    """
    for item in items:
        if not isinstance(item, pytest.Function) or item.parent is None:
            continue
        test = f"{item.parent.name}.{item.name}"
        if soaks(test):
            item.add_marker(pytest.mark.soak)
        if not is_real(config) and (reason := (NEEDING | FAILING | RACING).get(test)):
            mark = pytest.mark.xfail(reason=reason, strict=test not in RACING, run=test not in NOT_RUN)
            item.add_marker(mark)
