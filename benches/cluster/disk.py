"""Observes the disk of the servers. If it stalls, it delays any program that is measured at that time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import IO, Self

STALL = 0.02
"""If an append takes so many seconds, the disk has stalled. It usually takes a hundredth of this."""

PAUSE = 0.005
"""Time in seconds between two appends. It is short, so that an append is under way in any stall."""

BLOCK = bytes(4096)

LARGEST = 1 << 20
"""Size in bytes at which the observer's file begins anew."""


def append(file: IO[bytes]) -> float:
    """Append to a file and wait for the disk. Return how long this took in seconds."""
    began = time.monotonic()
    file.write(BLOCK)
    os.fsync(file.fileno())
    return time.monotonic() - began


def fsync_ms(directory: Path, times: int = 50) -> float:
    """Return how long an append takes in milliseconds: the median."""
    with TemporaryFile(dir=directory, buffering=0) as file:
        return round(median(append(file) for _ in range(times)) * 1e3, 3)


class Disk:
    """Appends to a file of its own again and again, on a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._file = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._longest = 0.0
        # Start of the append that is under way.
        self._began: float | None = None
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._file.close()

    def take(self) -> float:
        """Return how many seconds the longest append since the last call took. If an append is under way,
        the time that it has taken so far counts too.
        """
        with self._lock:
            longest, self._longest = self._longest, 0.0
            began = self._began
        return longest if began is None else max(longest, time.monotonic() - began)

    def note(self, took: float) -> None:
        """Note that an append has ended, and how long it took in seconds."""
        with self._lock:
            self._longest = max(self._longest, took)
            self._began = None

    def _run(self) -> None:
        while not self._ended.wait(PAUSE):
            with self._lock:
                self._began = time.monotonic()
            if self._file.tell() > LARGEST:
                self._file.seek(0)
                self._file.truncate()
            self.note(append(self._file))
