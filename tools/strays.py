"""Finds processes that a test run has left behind, by a mark in their environment."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "ZKLOCK_TEST_RUN"

PART = "ZKLOCK_TEST_PART"
"""The same for one process of a run, whose children must end with it."""

STRAY_LIMIT = 5.0
"""Maximum time in seconds that a process may run after the suite that started it."""


def mark() -> None:
    """Mark the processes that this process starts from now on."""
    os.environ[MARK] = str(os.getpid())


def end_strays() -> list[str]:
    """Kill the processes that were left behind, and return them. Helpers of multiprocessing end a moment
    after their parent.
    """
    deadline = time.monotonic() + STRAY_LIMIT
    while (found := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for stray in found:
        os.kill(int(stray.split()[0]), signal.SIGKILL)
    return found


@contextmanager
def marked() -> Iterator[dict[str, str]]:
    """Run the block with a marked environment for one process. Afterwards, kill every process with its mark.

    The mark is needed because a process that started its own session is not in the process group.
    """
    part = uuid.uuid4().hex
    yield {**os.environ, PART: part}
    for stray in carrying(f"{PART}={part}"):
        try:
            os.kill(int(stray.split()[0]), signal.SIGKILL)
        except ProcessLookupError:
            continue


def marked_processes() -> list[str]:
    """Return the processes with the mark of this run."""
    return carrying(f"{MARK}={os.environ[MARK]}")


def carrying(mark: str) -> list[str]:
    """Return the other processes with this text in their environment."""
    marked = mark.encode()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if marked in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{process.name} {command.strip()}")
        except OSError:
            # The process has ended, or belongs to another user.
            continue
    return found
