"""Chooses TCP ports that are free and that stay free while a server restarts.

The ports are below the kernel's ephemeral range. From that range, the kernel could give the port of a server
that is down to an outgoing connection. A client that connects to a closed port in the ephemeral range could
even connect to itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FIRST, _LAST = 20_000, 31_999
# Each pytest-xdist worker has its own ports, so no other worker takes the port of a server that is down.
_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_SHARES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_given: set[int] = set()
# Each test run on this machine locks one byte of this file for each port that it uses. Without this lock, a
# port would look free to another run for the seconds that a JVM takes to bind it.
_RESERVATIONS = os.open(
    Path(tempfile.gettempdir()) / f"zklock-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT
)


def _candidates() -> Iterator[int]:
    # Use a random order, so that two runs on one machine do not try the same ports in the same order.
    ours = range(_FIRST + _SHARE, _LAST, _SHARES)
    return iter(random.SystemRandom().sample(ours, len(ours)))


def free_port() -> int:
    """Return a port that no process listens on and that no running test process has reserved."""
    for port in _candidates():
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_RESERVATIONS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise RuntimeError("no free port found")
