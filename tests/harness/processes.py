"""Starts child processes that cannot outlive the tests.

Three mechanisms are needed, because each has a gap:

- The kernel kills a child when its parent dies. It misses grandchildren.
- An exit hook kills children that are still registered. It does not run if pytest is killed.
- A mark in the environment finds all remaining processes, so the test run can prove that none is left.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

MARK_NAME = "ZKLOCK_TEST_RUN"
MARK = uuid.uuid4().hex

ENDING = 5.0
"""Time in seconds that a killed process, or the child of a killed process, has to exit."""

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_alive: set[subprocess.Popen[bytes]] = set()


def _die_with_parent() -> None:
    # Between fork and exec, only this one call is safe. Therefore `_prctl` was looked up earlier.
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def spawn(
    command: Sequence[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session, so that Ctrl-C at the terminal reaches only pytest.

    Call this function from the main thread, because the kernel kills the child when the *thread* that started
    it exits.
    """
    process = subprocess.Popen(
        list(command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env={**os.environ, **(env or {}), MARK_NAME: MARK},
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    _alive.add(process)
    return process


def reap(
    process: subprocess.Popen[bytes], grace: float | None = None, readers: Iterable[threading.Thread] = ()
) -> int:
    """Wait up to ``grace`` seconds for the child to exit (``None``: do not wait), then kill it.

    Returns the child's status. The threads in ``readers`` read its pipes. The pipes are closed only after
    these threads have finished, because closing a file while another thread reads it breaks that thread.
    """
    if grace is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    if process.poll() is None:
        # SIGKILL works on a stopped process. Other signals wait until it continues.
        process.kill()
    status = process.wait(10)
    for reader in readers:
        # A grandchild might still hold the pipe.
        reader.join(5)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    _alive.discard(process)
    return status


def reap_all() -> None:
    """Kill every child that is still registered."""
    for process in list(_alive):
        reap(process)


def survivors() -> list[str]:
    """Return the command lines of all live processes with this run's mark, except our own process.

    Recently killed processes and their children get time to exit first.
    """
    deadline = time.monotonic() + ENDING
    while (found := _marked()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _marked() -> list[str]:
    mark = f"{MARK_NAME}={MARK}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{entry.name}: {line}")
    return found


atexit.register(reap_all)
