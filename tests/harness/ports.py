"""Free TCP ports that stay free.

Ports come from below the kernel's ephemeral range: one from within may be handed to an outgoing connection
while a server that owns it is down for a restart, and a client dialling a closed port in that range may even
meet itself.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator

_FIRST, _LAST = 20_000, 31_999
# Processes that share the tests of one run share the ports too: a server that is down keeps its port.
_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_SHARES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_given: set[int] = set()


def _candidates() -> Iterator[int]:
    # Seeded by the system, not fixed: two suites on one machine should not walk the same ports in step.
    ours = range(_FIRST + _SHARE, _LAST, _SHARES)
    return iter(random.SystemRandom().sample(ours, len(ours)))


def free_port() -> int:
    """A port on which nothing listens, and which this process has not given out before."""
    for port in _candidates():
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise RuntimeError("no free port found")
