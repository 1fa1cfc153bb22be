"""Processor time, as the system accounts for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """How much a process has used since it began, all its threads together; in seconds."""
    # The second field is the program's name, which may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


@dataclass
class Used:
    """How much a worker and its server have used for so many pairs; in seconds."""

    count: int = 0
    worker: float = 0.0
    server: float = 0.0
