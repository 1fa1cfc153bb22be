"""Child processes that cannot outlive the tests.

Three nets, because each has a hole: the kernel kills a child when its parent dies (misses grandchildren), an
exit hook kills what is still registered (misses a killed pytest), and a mark in the environment finds
what slipped through, so that the suite can prove at its end that nothing is left.
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
"""Seconds in which a process ends that has been killed, or whose parent has."""

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_alive: set[subprocess.Popen[bytes]] = set()


def _die_with_parent() -> None:
    # Runs between fork and exec: nothing but the one call that was looked up beforehand.
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
    """Start a marked child in its own session, so that a Ctrl-C at the terminal reaches only pytest.

    Call it from the main thread: the kernel ties the child to the *thread* that started it.
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
    """Wait up to ``grace`` seconds for the child to end by itself (``None``: not at all), then kill it.

    ``readers`` read its pipes, which are closed only when these have come to their end: a file that is
    closed while another thread reads it breaks that thread. Returns the child's status.
    """
    if grace is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    if process.poll() is None:
        # A stopped process takes no other signal.
        process.kill()
    status = process.wait(10)
    for reader in readers:
        # A child of the child may still hold the pipe.
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
    """The command lines of all live processes that carry this run's mark, except for our own process.

    A process that was killed a moment ago, or whose parent was, has the time to end.
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
