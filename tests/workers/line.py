"""Framing of the line protocol, shared by all workers in Python."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

Command = dict[str, Any]
Answer = dict[str, Any]

_output = threading.Lock()


def now() -> int:
    """Return CLOCK_MONOTONIC in nanoseconds, the clock that all processes of a machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def emit(event: str, *, t: int | None = None, **fields: Any) -> None:
    """Write one line atomically."""
    line = json.dumps({"event": event, **fields, "t": now() if t is None else t})
    with _output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def ready(surface: str) -> None:
    """Write the first line of a worker."""
    emit("ready", surface=surface, pid=os.getpid())


def answer(command: Command, event: str, *, t: int | None = None, **fields: Any) -> None:
    """Reply to a command."""
    emit(event, id=command["id"], t=t, **fields)


def fail(command: Command, error: BaseException) -> None:
    """Reply to a command that failed."""
    fields: Answer = {"type": type(error).__name__, "message": str(error)}
    code = getattr(error, "code", None)
    if isinstance(code, str):
        fields["code"] = code
    fields |= details(error)
    answer(command, "error", **fields)


def details(error: BaseException) -> Answer:
    """Return the structured details of an error."""
    found: Answer = {}
    if servers := getattr(error, "servers", ()):
        found["servers"] = [[report.server, report.problem] for report in servers]
        found["cause"] = str(error.__cause__)
    if blockers := getattr(error, "blockers", ()):
        found["blockers"] = [
            {
                "position": blocker.position,
                "node": blocker.node,
                "session": str(blocker.session_id),
                "pid": blocker.pid,
                "label": blocker.label,
            }
            for blocker in blockers
        ]
    if (deadlock := getattr(error, "deadlock", None)) is not None:
        found["deadlock"] = {"held": deadlock.held, "waited": deadlock.waited, "node": deadlock.other.node}
    if (reason := getattr(error, "reason", None)) is not None:
        found["reason"] = reason
    return found


def timeout_of(command: Command) -> Any:
    """Return the timeout of an acquire, unchanged except for numbers that JSON lacks."""
    timeout = command.get("timeout")
    return math.nan if timeout == "NaN" else timeout


def exchange(command: Command) -> str:
    """Send a line to an address, and return the line received in reply."""
    host, port = command["address"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(command["text"].encode() + b"\n")
        with connection.makefile(encoding="utf-8") as lines:
            return lines.readline().rstrip("\n")


def thread_names() -> list[str]:
    """Return the kernel's names of this process's threads."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            # The thread has exited in the meantime.
            continue
    return names
