"""The command has to be built before any of its tests."""

from __future__ import annotations

import signal

import pytest

from harness.built import NotBuilt, OutOfDate, require


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    # Under nohup it is ignored, and commands inherit that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Before dozens of tests fail for it.
    try:
        require("command")
    except (NotBuilt, OutOfDate) as problem:
        raise pytest.UsageError(str(problem)) from None
