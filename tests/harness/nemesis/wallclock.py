"""Sets the wall clock of a single process."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from harness.paths import TESTS

SOURCE = Path(__file__).with_name("wallclock.c")
OFFSET = struct.Struct("=q")


@cache
def _library() -> Path:
    """Build the preloaded library with the C compiler that Rust links with. Return its path."""
    library = TESTS / "target" / "wallclock.so"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        library.parent.mkdir(exist_ok=True)
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(["cc", *flags, "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class WallClock:
    """The wall clock of every process that is started with ``env``."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="zklock-wall-clock-")
        os.write(handle, OFFSET.pack(0))
        os.close(handle)
        self._file = Path(name)
        self.env = {"LD_PRELOAD": str(_library()), "ZKLOCK_TEST_WALL_CLOCK": name}

    def step(self, seconds: float) -> None:
        """Set the clock this many seconds ahead of the true time, or behind it."""
        with self._file.open("r+b") as file:
            file.write(OFFSET.pack(round(seconds * 1e9)))

    def close(self) -> None:
        """Delete the file that contains the offset."""
        self._file.unlink(missing_ok=True)
