"""Runs the crontab of docs/howto/cron.md as printed.

Three hosts whose clocks differ run the crontab. Exactly one runs each night's job.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.built import require
from harness.instances import instances, three_o_clock
from harness.paths import COMMAND, REPOSITORY
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "howto" / "cron.md"
NIGHTS = 3

JOB = """#!/bin/sh
sleep 0.05
echo "$ZKLOCK_TOKEN"
"""


def lines() -> list[str]:
    """Return the commands of the page's crontab, as cron passes them to a shell."""
    found = re.findall(r"^\d+ \d+ \* \* \*  (.*)$", PAGE.read_text(), re.MULTILINE)
    return [line.replace(r"\%", "%") for line in found]


def ran(line: str, server: Standalone, directory: Path) -> list[str]:
    """Return the lines that the hosts' jobs print in several nights."""
    require("command")
    (directory / "zklock").symlink_to(COMMAND)
    job = directory / "nightly"
    job.write_text(JOB)
    job.chmod(0o755)
    env = {
        "ZKLOCK_HOSTS": f"{server.hosts}/cron-{directory.name}",
        "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
    }
    printed = directory / "printed"
    command = ["sh", "-c", line.replace("/opt/jobs/nightly", str(job))]
    for night in range(NIGHTS):
        with instances(command, printed, env, ahead=three_o_clock(night)) as hosts:
            hosts.wait()
    return printed.read_text().splitlines()


@pytest.mark.parametrize("line", lines(), ids=range(len(lines())))
def test_a_night_runs_once(line: str, server: Standalone, tmp_path: Path) -> None:
    tokens = ran(line, server, tmp_path)
    assert len(tokens) == len(set(tokens)) == NIGHTS


def test_a_night_runs_again_under_a_plain_lock(server: Standalone, tmp_path: Path) -> None:
    line = lines()[0].replace(" --once-per 1d", "")
    assert line != lines()[0]
    assert len(ran(line, server, tmp_path)) == 3 * NIGHTS


def test_cron_does_not_mail_skipped_runs(server: Standalone, tmp_path: Path) -> None:
    (proposed,) = re.findall(r"append `(2>&1 \| grep -v '.*')` to", PAGE.read_text())
    (tmp_path / "zklock").symlink_to(COMMAND)
    line = lines()[0].replace("/opt/jobs/nightly", "echo done")
    env = {
        **os.environ,
        "ZKLOCK_HOSTS": f"{server.hosts}/cron-mail",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    for mailed in ("done\n", ""):
        command = ["sh", "-c", f"{line} {proposed}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == (mailed, "")
