"""A job that only one process at a time runs, in Python: `job.py PATH ROUNDS`. ZKLOCK_HOSTS names the
servers.

Each printed line starts with the time. The demo draws its picture from these lines.
"""

from __future__ import annotations

import random
import sys
import time

import zklock


def say(*words: object) -> None:
    """Print the time and an event."""
    print(time.monotonic_ns(), *words, flush=True)


path, rounds = sys.argv[1], int(sys.argv[2])
with zklock.Client(session_timeout=2) as client:
    lock = zklock.Mutex(client, path)
    for _ in range(rounds):
        say("waits")
        with lock as lease:
            say("holds", lease.node, lease.fencing_token)
            time.sleep(random.uniform(0.25, 0.5))  # the work
            say("releases")
