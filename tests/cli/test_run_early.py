"""`zklock run` does not start its command if the lock is lost before."""

from __future__ import annotations

import signal
from pathlib import Path

from cli.test_metrics import metrics_of
from harness.command import Command
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import eventually

DELAY = 0.35
"""Delay of each request and each reply in seconds. It leaves time to stop `zklock` after the grant."""


def test_s811_lost_between_the_grant_and_the_start(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    """`zklock` does not start the command if it lost the lock while it was stopped after the grant.

    With `--on-lost ignore`, `zklock` would not end the command if it had started it.
    """
    file = tmp_path / "job.prom"
    flags = ("--session-timeout", "8", "--on-lost", "ignore", "--metrics", str(file))
    with (
        Proxy(server.hosts, delay=DELAY) as slow,
        Command(slow.hosts, "run", *flags, path, "--", "echo", "ran") as command,
    ):
        eventually(
            lambda: file.exists() and metrics_of(file, path)["holding"] == 1, "the lock is granted", 30
        )
        command.signal(signal.SIGSTOP)
        observer.wait_queue(path, 0, timeout=30)
        command.signal(signal.SIGCONT)
        ended = command.wait()
    assert (ended.status, ended.out) == (79, "")
    assert f'the lock "{path}" is lost (' in ended.err
    assert "the command was not started" in ended.err
    counted = metrics_of(file, path)
    assert (counted["losses_total"], counted["exit_status"], counted["holding"]) == (1, 79, 0)
