"""A pytest plugin: ends the process of a test that its own time-out does not end.

That time-out is a signal, which a test that never comes back from native code does not notice, nor one that
has blocked it. A thread that needs no interpreter prints where everything stands, and ends the process. With
xdist that is one worker: its test has failed, and another worker takes the tests that are left.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

# Not captured: plugins that are named on the command line come first.
_ERRORS = os.fdopen(os.dup(2), "w")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("grace", "seconds after a test's time-out at which its process is ended", default="60")


def limit(item: pytest.Item) -> float:
    """The time-out of a test, in seconds."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    return float(item.config.getini("timeout") or 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Starts the clock anew for each test, with what sets it up and clears up behind it."""
    if seconds := limit(item):
        grace = float(item.config.getini("grace"))
        faulthandler.dump_traceback_later(seconds + grace, exit=True, file=_ERRORS)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
