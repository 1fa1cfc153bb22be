"""Measures the sizes of the packages of `make dist` and their startup times, and compares them with the
promised limits.

Usage: `measure.py DIST`. With `--renew`, it also writes the results into the pages.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import first_minute
import measured

TRIES = 30
"""Number of starts. The fastest one counts, so that other load on the machine has little effect."""

IMPORT = "import time; began = time.perf_counter(); import zklock; print(time.perf_counter() - began)"
REQUIRE = (
    "const began = performance.now(); require('zklock'); console.log((performance.now() - began) / 1000)"
)


def milliseconds(act: Callable[[], float]) -> float:
    """Return the fastest of several runs, in milliseconds."""
    return round(min(act() for _ in range(TRIES)) * 1000, 1)


def printed(*command: str | Path, cwd: Path) -> float:
    """Return the number that a program prints."""
    return float(subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True).stdout)


def start(command: Path) -> float:
    """Return the seconds from the start of the command to its exit."""
    began = time.perf_counter()
    subprocess.run([command, "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def megabytes(size: int) -> float:
    """Convert bytes to megabytes with two digits."""
    return round(size / 1e6, 2)


def command() -> Path:
    """Return the path of the command that cargo builds for publishing."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", measured.ROOT / "target"))
    return target / "dist" / "zklock"


def measure(dist: Path) -> dict[str, float]:
    """Install the packages into empty directories, start them, and return all figures."""
    (sdist,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    (package,) = dist.glob("zklock-[0-9]*.tgz")
    (platform,) = dist.glob("zklock-[a-z]*.tgz")
    with zipfile.ZipFile(wheel) as packed:
        unpacked = {Path(entry.filename).name: entry.file_size for entry in packed.infolist()}
    with tarfile.open(platform) as unpacking:
        (addon,) = [entry.size for entry in unpacking.getmembers() if entry.name.endswith(".node")]
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", here / "venv"], check=True)
        python = here / "venv" / "bin" / "python"
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--quiet",
            "--no-index",
            wheel,
        ]
        subprocess.run(pip, check=True)
        (here / "package.json").write_text('{ "private": true }\n')
        npm: list[str | Path] = [
            "npm",
            "install",
            "--offline",
            "--silent",
            "--no-audit",
            "--no-fund",
            package,
            platform,
        ]
        subprocess.run(npm, cwd=here, check=True)
        return {
            "wheel MB": megabytes(wheel.stat().st_size),
            "sdist MB": megabytes(sdist.stat().st_size),
            "npm package MB": megabytes(package.stat().st_size),
            "npm platform package MB": megabytes(platform.stat().st_size),
            "extension MB": megabytes(unpacked["_zklock.abi3.so"]),
            "command MB": megabytes(unpacked["zklock"]),
            "addon MB": megabytes(addon),
            "import ms": milliseconds(lambda: printed(python, "-c", IMPORT, cwd=here)),
            "require ms": milliseconds(lambda: printed("node", "-e", REQUIRE, cwd=here)),
            "pip start ms": milliseconds(lambda: start(python.parent / "zklock")),
            "npm start ms": milliseconds(lambda: start(here / "node_modules" / ".bin" / "zklock")),
            "cargo start ms": milliseconds(lambda: start(command())),
        }


def main() -> int:
    """Measure, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--renew", action="store_true")
    options = parser.parse_args()
    dist = options.dist.resolve()
    figures = measure(dist)
    for what, number in figures.items():
        print(f"{number:7} {what.split()[-1]}  {measured.FIGURES[what]}", flush=True)
    try:
        minute = first_minute.tried(dist)
    except first_minute.FailedError as problem:
        print(f"the first minute FAILED: {problem}")
        return 1
    figures["first minute s"] = round(minute.seconds, 1)
    if options.renew:
        (platform,) = dist.glob("zklock-[a-z]*.tgz")
        measured.renew(measured.told(figures, platform.name.removeprefix("zklock-").rpartition("-")[0]))
    exceeded = measured.exceeded(figures)
    for what in exceeded:
        print(f"more than is promised: {what}")
    print(minute.verdict(measured.BARS["first minute s"]))
    print(f"{options.dist}: {'NOT ' if exceeded else ''}as promised")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
