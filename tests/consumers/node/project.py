"""A project with the installed package, and programs that run in it."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness import installed
from harness.built import require
from harness.installed import run as run
from harness.paths import NODE
from harness.processes import reap, spawn
from harness.programs import programs

HERE = Path(__file__).parent
EXAMPLES = ("app", "esbuild", "webpack", "rollup", "ncc", "jest", "vitest", "runtimes", "sinon")

LINE = 15.0
"""Timeout in seconds for a program to print its next line. It is shorter than the session timeout."""


class Project:
    """A copy of the examples. They use the tools that are installed next to this file."""

    def __init__(self, directory: Path) -> None:
        require("bundlers")
        self.directory = directory
        for name in EXAMPLES:
            shutil.copytree(HERE / name, directory / name)

    @property
    def modules(self) -> Path:
        """Directory of the installed packages."""
        return self.directory / "node_modules"

    def install(self) -> None:
        """Install the packages, and link the tools next to them."""
        installed.project(self.directory)
        tools = HERE / "node_modules"
        # Packages, and the commands in `.bin`.
        for tool in (*tools.iterdir(), *(tools / ".bin").iterdir()):
            link = self.modules / tool.relative_to(tools)
            if not link.exists():
                link.symlink_to(tool)

    def shown(self, page: Path, name: str) -> Path:
        """Write a page's program to a file that can import its packages. Return the path of the file."""
        directory = self.directory / "shown"
        directory.mkdir(exist_ok=True)
        (program,) = [one for one in programs(page) if one.name == name]
        (directory / name).write_text(program.code)
        return directory / name

    def script(self, example: str, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run a script of an example's package.json, as its user would."""
        return run("npm", "run", name, "--", *arguments, cwd=self.directory / example, env=env)


class Program:
    """A running `app/main.mjs`, in any bundle and on any runtime."""

    def __init__(self, bundle: Path, hosts: str, path: str, runtime: Sequence[str] = (NODE,)) -> None:
        self._process = spawn(
            [*runtime, str(bundle), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=bundle.parent,
            env={"ZKLOCK_HOSTS": hosts},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode().rstrip())
        self._lines.put(None)

    def line(self) -> str | None:
        """Return the next line that the program prints, or None if its output has ended."""
        return self._lines.get(timeout=LINE)

    def silent(self) -> bool:
        """Return whether the program has printed nothing more."""
        return self._lines.empty()

    def tell(self) -> None:
        """Let the program leave its lock, or exit."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def status(self) -> int:
        """Wait until the program exits by itself. Return its exit status."""
        return self._process.wait(LINE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reap(self._process, readers=[self._reader])


def lines(text: str, *needles: str) -> Sequence[str]:
    """Return the lines that contain one of these texts, in any case."""
    return [line for line in text.splitlines() if any(needle in line.lower() for needle in needles)]
