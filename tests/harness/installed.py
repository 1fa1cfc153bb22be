"""Installs the packages, as users do, into new Python environments and empty npm projects."""

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
"""Directory of the packages under test, which `make dist` sets. If it is None, debug builds are tested."""

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Python versions that the wheel supports."""

LIMIT = 100.0
"""Timeout of a command in seconds. It is shorter than a test's timeout, so a failure shows the output."""


def packages() -> Path:
    """Return the directory of the packages under test."""
    if ELSEWHERE is None:
        require("packages")
    return Path(ELSEWHERE or TARGET / "packages").resolve()


def one(pattern: str) -> Path:
    """Return the only package that matches the pattern."""
    (found,) = packages().glob(pattern)
    return found


def wheel() -> Path:
    """Return the wheel."""
    return one("*.whl")


def command() -> Path:
    """Return the path of the `zklock` command."""
    return COMMAND if ELSEWHERE is None else REPOSITORY / "target" / "command" / "zklock"


def tarballs() -> tuple[Path, Path]:
    """Return the npm package, and the npm package for this platform."""
    return one("zklock-[0-9]*.tgz"), one("zklock-[a-z]*.tgz")


def run(
    *command: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    limit: float = LIMIT,
) -> str:
    """Run a command and return its output (stdout and stderr). Fail if the command fails."""
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
    """Return the processor seconds used so far by exited child processes and their descendants.

    Wall-clock time would depend on the load of the machine.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interpreters() -> dict[str, Path]:
    """Return the available versions of Python: the running one, those on the PATH, and those of pyenv."""
    found = {}
    for version in VERSIONS:
        places = [Path(sys.executable)] if sys.version.startswith(f"{version}.") else []
        places += map(Path, filter(None, [shutil.which(f"python{version}")]))
        places += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
        for place in places:
            # A pyenv shim can exist and still refuse to run.
            asked = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
            if asked.stdout.startswith(f"Python {version}."):
                found[version] = place
                break
    return found


def environment(directory: Path, interpreter: Path = Path(sys.executable), *more: Path) -> Path:
    """Create an environment with only the wheel and the packages in `more`. Return its interpreter."""
    run(interpreter, "-m", "venv", "--without-pip", directory, cwd=directory.parent)
    python = directory / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, wheel(), *more, cwd=directory)
    return python


def project(directory: Path) -> Path:
    """Install the npm packages into an empty project. Return its `node_modules` directory."""
    (directory / "package.json").write_text('{ "private": true }\n')
    install = ("npm", "install", "--offline", "--no-audit", "--no-fund", "--no-save", "--no-package-lock")
    run(*install, *tarballs(), cwd=directory)
    return directory / "node_modules"


@contextmanager
def dev(command: Path, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run `zklock dev`, the development server. Yield its address."""
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
