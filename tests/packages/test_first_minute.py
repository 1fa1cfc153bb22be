"""The README's programs run from the packages in an empty directory, without a compiler and without Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from first_minute import Tried
from harness import installed
from harness.installed import processor_time
from harness.paths import REPOSITORY

TOOL = REPOSITORY / "tools" / "first_minute.py"
LIMIT = 60.0
"""Limit in seconds of processor time for both languages. Wall-clock time would depend on other programs."""


def first_minute(packages: Path) -> tuple[int, list[str]]:
    """Run the tool with which `make dist` ends. Return its status and its output."""
    command = [sys.executable, str(TOOL), str(packages), "--limit", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    return done.returncode, done.stdout.splitlines()


def test_s590_the_readme_runs_from_the_packages() -> None:
    began = processor_time()
    status, said = first_minute(installed.wheel().parent)
    assert status == 0, said
    assert [line for line in said if "README, " in line and "with token" in line] == said[3:5], said
    assert said[-1].startswith("the first minute passed: Python and Node lock after ")
    assert processor_time() - began < LIMIT


def test_s590_a_broken_package_is_reported(tmp_path: Path) -> None:
    for package in installed.wheel().parent.glob("*"):
        shutil.copy2(package, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    wheel.write_bytes(b"no wheel")
    status, said = first_minute(tmp_path)
    assert status == 1
    assert said[0].startswith("the first minute FAILED: ")
    assert "pip install" in said[0]


def test_s590_the_limit_applies_to_wall_clock_time_if_measured() -> None:
    quiet, busy = 0.5, (os.cpu_count() or 1) * 4.0
    slow, fast = Tried(61.0, 9.0, quiet), Tried(59.0, 9.0, quiet)
    assert slow.seconds == 61.0
    assert "FAILED: too slow" in slow.verdict(LIMIT)
    assert "passed" in fast.verdict(LIMIT)
    assert "passed" in Tried(61.0, 9.0, busy).verdict(LIMIT)
    assert "FAILED: too slow" in Tried(61.0, 60.5, busy).verdict(LIMIT)
    # Most of this wall-clock time was waiting.
    assert "FAILED: too slow" in Tried(200.0, 9.0, busy).verdict(LIMIT)
