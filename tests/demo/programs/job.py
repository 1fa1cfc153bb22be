"""Example job for `zklock demo`, in Python: `job.py PATH ROUNDS`.

Only one process at a time runs it. ZKLOCK_HOSTS names the servers.
"""

from __future__ import annotations

import random
import sys
import time

import zklock

path, rounds = sys.argv[1], int(sys.argv[2])
with zklock.Client(session_timeout=2) as client:
    lock = zklock.Mutex(client, path)
    for _ in range(rounds):
        with lock:
            time.sleep(random.uniform(0.25, 0.5))  # the work
