"""A pytest plugin that ends the process of a test that its own timeout does not end.

The test's timeout is a signal. A test that never returns from native code, or that has blocked the signal,
does not notice it. A thread that does not need the interpreter prints all stacks and ends the process. With
xdist, this is one worker: its test has failed, and another worker runs the remaining tests.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

# Not captured yet, because plugins that are named on the command line load first.
_ERRORS = os.fdopen(os.dup(2), "w")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("grace", "seconds after a test's time-out at which its process is ended", default="60")


def limit(item: pytest.Item) -> float:
    """Return the timeout of a test, in seconds."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    return float(item.config.getini("timeout") or 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start a new timer for each test, including its setup and teardown."""
    if seconds := limit(item):
        grace = float(item.config.getini("grace"))
        faulthandler.dump_traceback_later(seconds + grace, exit=True, file=_ERRORS)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
