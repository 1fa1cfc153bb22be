"""Processes that a run of tests left behind: its mark is in their environment."""

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
"""The same for one process of a run: the part that ends together."""

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


@contextmanager
def marked() -> Iterator[dict[str, str]]:
    """An environment for one process; at the end, all that carries its mark is killed.

    What began a session of its own is not in the process's group.
    """
    part = uuid.uuid4().hex
    yield {**os.environ, PART: part}
    for stray in carrying(f"{PART}={part}"):
        try:
            os.kill(int(stray.split()[0]), signal.SIGKILL)
        except ProcessLookupError:
            continue


def marked_processes() -> list[str]:
    """The processes that carry the mark which this run put into their environment."""
    return carrying(f"{MARK}={os.environ[MARK]}")


def carrying(mark: str) -> list[str]:
    """The other processes with this in their environment."""
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
            # Ended, or another user's.
            continue
    return found
