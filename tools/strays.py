"""Processes that a run of tests left behind: its mark is in their environment."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MARK = "ZKLOCK_TEST_RUN"

STRAY_LIMIT = 5.0
"""Seconds within which processes must end after the suite that started them."""


def mark() -> None:
    """Marks what this process starts from now on."""
    os.environ[MARK] = str(os.getpid())


def end_strays() -> list[str]:
    """Ends what was left behind, and names it. Helpers of multiprocessing end a moment after their parent."""
    deadline = time.monotonic() + STRAY_LIMIT
    while (found := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for stray in found:
        os.kill(int(stray.split()[0]), signal.SIGKILL)
    return found


def marked_processes() -> list[str]:
    """The processes that carry the mark which this run put into their environment."""
    marked = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if marked in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{process.name} {command.strip()}")
        except OSError:
            # Ended, or another user's.
            continue
    return found
