"""Configuration of the command's tests: the command must be built before any of them runs."""

from __future__ import annotations

import signal

import pytest

from harness.built import NotBuilt, require


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    # If pytest runs under `nohup` or in the background of a script, some signals are ignored, and the tested
    # commands would inherit this.
    for one in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Fail here, before dozens of tests fail for the same reason.
    try:
        require("command")
    except NotBuilt as problem:
        raise pytest.UsageError(str(problem)) from None
