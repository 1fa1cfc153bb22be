"""How large the packages are, and how quickly they start. `make dist` fails beyond what is promised."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

TRIES = 30
"""How often something is started. The quickest counts: what else this machine does is not meant."""

BARS = {"wheel MB": 6.0, "import ms": 30.0, "pip start ms": 60.0, "npm start ms": 60.0}
"""What is promised."""

IMPORT = "import time; began = time.perf_counter(); import zklock; print(time.perf_counter() - began)"
REQUIRE = (
    "const began = performance.now(); require('zklock'); console.log((performance.now() - began) / 1000)"
)


def milliseconds(act: Callable[[], float]) -> float:
    """The quickest of some tries."""
    return round(min(act() for _ in range(TRIES)) * 1000, 1)


def printed(*command: str | Path, cwd: Path) -> float:
    """The number that a program prints."""
    return float(subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True).stdout)


def start(command: Path) -> float:
    """Seconds from the start of the command to its end."""
    began = time.perf_counter()
    subprocess.run([command, "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def megabytes(size: int) -> float:
    """As it is shown."""
    return round(size / 1e6, 2)


def measure(dist: Path) -> dict[str, float]:
    """Installs the packages into empty directories, and starts what is there."""
    (wheel,) = dist.glob("*.whl")
    (package,) = dist.glob("zklock-[0-9]*.tgz")
    (platform,) = dist.glob("zklock-[a-z]*.tgz")
    with zipfile.ZipFile(wheel) as packed:
        unpacked = {Path(entry.filename).name: entry.file_size for entry in packed.infolist()}
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
            "npm package MB": megabytes(package.stat().st_size),
            "npm platform package MB": megabytes(platform.stat().st_size),
            "extension MB": megabytes(unpacked["_zklock.abi3.so"]),
            "command MB": megabytes(unpacked["zklock"]),
            "import ms": milliseconds(lambda: printed(python, "-c", IMPORT, cwd=here)),
            "require ms": milliseconds(lambda: printed("node", "-e", REQUIRE, cwd=here)),
            "pip start ms": milliseconds(lambda: start(python.parent / "zklock")),
            "npm start ms": milliseconds(lambda: start(here / "node_modules" / ".bin" / "zklock")),
        }


def exceeded(measured: dict[str, float]) -> list[str]:
    """The promises that are not kept."""
    return [f"{what}: {measured[what]} of {bar}" for what, bar in BARS.items() if measured[what] > bar]
