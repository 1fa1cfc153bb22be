"""The command has to be built before any of its tests."""

from __future__ import annotations

import signal

import pytest

from harness.built import NotBuilt, OutOfDate, require


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    # Under nohup, or in the background of a script, some are ignored, and commands inherit that.
    for one in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Before dozens of tests fail for it.
    try:
        require("command")
    except (NotBuilt, OutOfDate) as problem:
        raise pytest.UsageError(str(problem)) from None
