"""Importing is free."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["zklock", "zklock.aio"])
def test_importing_starts_no_thread_and_opens_no_socket(module: str) -> None:
    code = f"""
import os
before = set(os.listdir("/proc/self/fd"))
import {module}
after = [os.readlink("/proc/self/fd/" + fd) for fd in set(os.listdir("/proc/self/fd")) - before]
print(len(os.listdir("/proc/self/task")), after)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "1 []", done


def test_importing_the_blocking_part_leaves_asyncio_alone() -> None:
    code = "import sys, zklock; print('asyncio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "False", done
