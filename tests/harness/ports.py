"""Free TCP ports that stay free.

Ports come from below the kernel's ephemeral range: one from within may be handed to an outgoing connection
while a server that owns it is down for a restart, and a client dialling a closed port in that range may even
meet itself.
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
# Processes that share the tests of one run share the ports too: a server that is down keeps its port.
_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_SHARES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_given: set[int] = set()
# Suites that run beside each other, and those of other checkouts, know what is given from locks on this file,
# one byte for each port. A JVM takes seconds to bind its port: until then others would find it free.
_BOOK = os.open(Path(tempfile.gettempdir()) / f"zklock-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT)


def _candidates() -> Iterator[int]:
    # Seeded by the system, not fixed: two suites on one machine should not walk the same ports in step.
    ours = range(_FIRST + _SHARE, _LAST, _SHARES)
    return iter(random.SystemRandom().sample(ours, len(ours)))


def free_port() -> int:
    """A port on which nothing listens, and which no process that runs has given out before."""
    for port in _candidates():
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_BOOK, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise RuntimeError("no free port found")
