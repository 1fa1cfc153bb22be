"""A WSGI application whose requests use locks. With preloading, the master loads it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable

import zklock

HOSTS, PATH = os.environ["ZKLOCK_HOSTS"], os.environ["LOCK_PATH"]

# Created where the application is loaded, and used in the workers.
lock = zklock.Mutex(HOSTS, PATH)
inside = 0
most = 0


def enter() -> dict[str, object]:
    """Hold the lock for a moment, while other requests of this worker run."""
    global inside, most
    with lock as lease:
        began = time.monotonic()
        inside += 1
        most = max(most, inside)
        time.sleep(0.05)
        inside -= 1
        return {"token": lease.fencing_token, "began": began, "ended": time.monotonic()}


def keep() -> dict[str, object]:
    """Acquire a lock and never release it."""
    mine = zklock.Mutex(HOSTS, f"{PATH}-kept")
    mine.acquire()
    keeping.append(mine)
    return {}


keeping: list[zklock.Mutex] = []


def application(environ: dict[str, str], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Run the function for the request's path, and return its result as JSON."""
    pages: dict[str, Callable[[], dict[str, object]]] = {"/enter": enter, "/keep": keep, "/": dict}
    answer = pages[environ["PATH_INFO"]]()
    patched = threading.Thread.start.__module__, time.sleep.__module__
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({**answer, "pid": os.getpid(), "most": most, "patched": patched}).encode()]
