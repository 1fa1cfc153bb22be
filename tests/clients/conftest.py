"""Which server the clients use, and what is made of kazoo's tests that are listed."""

from __future__ import annotations

import pytest

from clients.kazoo_cluster import Cluster
from clients.kazoo_list import FAILING, NEEDING, NOT_RUN, RACING, soaks
from clients.servers import is_real
from harness.built import NotBuilt, OutOfDate, require


def pytest_configure(config: pytest.Config) -> None:
    # Before hundreds of tests fail for it.
    try:
        require("jars" if is_real(config) else "embedded")
    except (NotBuilt, OutOfDate) as problem:
        raise pytest.UsageError(str(problem)) from None
    Cluster.real = is_real(config)
    # kazoo's and eventlet's own, which are theirs to mend.
    config.addinivalue_line("filterwarnings", "ignore")


# Before the long variants are left out.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks kazoo's tests that are listed.

    Not for the real server, which shows what the tests themselves are worth.
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
