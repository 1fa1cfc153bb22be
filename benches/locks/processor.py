"""Reads processor times and other figures of processes from the operating system."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Return the processor time of all threads of a process since its start, in seconds."""
    # The second field, in parentheses, is the program's name. It can contain any characters, so split after
    # it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def status(pid: int, field: str) -> int:
    """Return a number from the process's status, such as its resident memory in KiB (`VmRSS`)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


@dataclass
class Used:
    """Processor time in seconds of a worker and its server, and the number of pairs in that time."""

    count: int = 0
    worker: float = 0.0
    server: float = 0.0
