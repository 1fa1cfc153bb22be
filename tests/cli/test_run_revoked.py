"""`zklock run --on-revoke term` ends a command that is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.command import Command, Log, run, state
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import eventually


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of the test's job."""
    return Log(tmp_path)


def test_s812_a_stopped_command(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    words = ("run", "--on-revoke", "term", path, "--", *log.job("tick"))
    with Command(server.hosts, *words) as command:
        (started,) = log.wait("start")
        (node,) = observer.wait_queue(path, 1)
        os.kill(started.pid, signal.SIGSTOP)
        eventually(lambda: state(started.pid) == "T", "the command is stopped")
        assert run(server.hosts, "revoke", path, node).status == 0
        log.wait("SIGTERM")
        assert command.wait().status == 3
    observer.assert_free(path)
