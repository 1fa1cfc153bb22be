"""What users install, and what it is installed into: new environments, empty projects."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.built import require
from harness.paths import COMMAND, REPOSITORY, TARGET
from harness.processes import reap, spawn

ELSEWHERE = os.environ.get("ZKLOCK_PACKAGES")
"""Where other packages are than those around the debug builds: `make dist` tries its own."""

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that the wheel is for."""

LIMIT = 100.0
"""Seconds for a command: less than a test has, so that what it said is reported."""


def one(pattern: str) -> Path:
    """The package of that name."""
    if ELSEWHERE is None:
        require("packages")
    (found,) = Path(ELSEWHERE or TARGET / "packages").resolve().glob(pattern)
    return found


def wheel() -> Path:
    """The wheel."""
    return one("*.whl")


def command() -> Path:
    """The command as cargo builds it."""
    return COMMAND if ELSEWHERE is None else REPOSITORY / "target" / "dist" / "zklock"


def tarballs() -> tuple[Path, Path]:
    """The npm package, and that of this platform."""
    return one("zklock-[0-9]*.tgz"), one("zklock-[a-z]*.tgz")


def run(
    *command: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    limit: float = LIMIT,
) -> str:
    """What a command prints, both streams together; fails as it does."""
    quiet = {"NO_COLOR": "1", "FORCE_COLOR": "0", "CI": "1"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **quiet, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    shown = " ".join(map(str, command))
    assert done.returncode == 0, f"{shown} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def processor_time() -> float:
    """Seconds of a processor that the children took which have ended by now, and their children.

    Time on the clock depends on what else the machine does.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interpreters() -> dict[str, Path]:
    """The versions of Python that are here: the one that runs the tests, those on the PATH and of pyenv."""
    found = {}
    for version in VERSIONS:
        places = [Path(sys.executable)] if sys.version.startswith(f"{version}.") else []
        places += map(Path, filter(None, [shutil.which(f"python{version}")]))
        places += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
        for place in places:
            # One of pyenv's programs may be there and refuse.
            asked = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
            if asked.stdout.startswith(f"Python {version}."):
                found[version] = place
                break
    return found


def environment(directory: Path, interpreter: Path = Path(sys.executable), *more: Path) -> Path:
    """The interpreter of a new environment with the wheel, and with no other package than those named."""
    run(interpreter, "-m", "venv", "--without-pip", directory, cwd=directory.parent)
    python = directory / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, wheel(), *more, cwd=directory)
    return python


def project(directory: Path) -> Path:
    """An empty project with the npm packages. Returns where they are installed."""
    (directory / "package.json").write_text('{ "private": true }\n')
    install = ("npm", "install", "--offline", "--no-audit", "--no-fund", "--no-save", "--no-package-lock")
    run(*install, *tarballs(), cwd=directory)
    return directory / "node_modules"


@contextmanager
def dev(command: Path, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Runs `zklock dev`, the server for development; yields its address."""
    process = spawn([str(command), "dev", "--port", "0"], stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        listening = re.match(r"listening on (127\.0\.0\.1:\d+)\b", process.stdout.readline().decode())
        assert listening is not None
        yield listening[1]
        process.terminate()
        assert process.wait(15) == 0
    finally:
        reap(process)
