"""Measures the sizes and times that docs/packages.md promises. `make dist` runs it on its own packages.

Debug builds are larger and slower, so the test suites do not run this file. `make dist RENEW=1` writes the
page.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness import installed
from harness.installed import one, run
from harness.paths import NODE, REPOSITORY
from packages.test_first_minute import LIMIT, first_minute

PAGE = REPOSITORY / "docs" / "packages.md"
RENEW = "ZKLOCK_RENEW_FIGURES"
BEGIN, END = "<!-- figures: packages -->", "<!-- end of figures -->"

PROMISED = {
    "wheel": "6 MB",
    "`import zklock`": "30 ms",
    "start of the command, as pip installs it": "60 ms",
    "the same, as npm does": "60 ms",
    "the same, as cargo does": "60 ms",
    "*first minute*: both installed, and the README's first programs run": f"{LIMIT:g} s",
}
TRIES = 30
"""Number of starts that are measured.

The fastest one counts, so other load on the machine has little effect.
"""

IMPORT = "import time; began = time.perf_counter(); import zklock; print(time.perf_counter() - began)"
REQUIRE = (
    "const began = performance.now(); require('zklock'); console.log((performance.now() - began) / 1000)"
)


def exceeded(figures: dict[str, str]) -> list[str]:
    """Return the figures that exceed their promised limit."""
    limits = {name: (figures[name].split(), limit.split()) for name, limit in PROMISED.items()}
    assert all(figure[1] == limit[1] for figure, limit in limits.values()), "different units"
    return [name for name, (figure, limit) in limits.items() if float(figure[0]) > float(limit[0])]


def size(number: int) -> str:
    """Format a number of bytes."""
    return f"{number / 1e6:.3g} MB"


def fastest(act: Callable[[], float]) -> str:
    """Return the shortest of several times, which are in seconds."""
    return f"{min(act() for _ in range(TRIES)) * 1000:.3g} ms"


def start(command: Path) -> float:
    """Return the seconds from the start of the command to its exit."""
    began = time.perf_counter()
    subprocess.run([command, "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def measured(python: Path, modules: Path, scratch: Path) -> dict[str, str]:
    """Measure everything, in the order of the page."""
    package, native = installed.tarballs()
    with zipfile.ZipFile(installed.wheel()) as packed:
        unpacked = {Path(entry.filename).name: entry.file_size for entry in packed.infolist()}
    with tarfile.open(native) as packed_native:
        (addon,) = (entry.size for entry in packed_native.getmembers() if entry.name.endswith(".node"))
    return {
        "wheel": size(installed.wheel().stat().st_size),
        "its extension, unpacked": size(unpacked["_zklock.abi3.so"]),
        "its command, unpacked": size(unpacked["zklock"]),
        "source distribution": size(one("*.tar.gz").stat().st_size),
        "npm package": size(package.stat().st_size),
        "npm package of the platform": size(native.stat().st_size),
        "its addon, unpacked": size(addon),
        "`import zklock`": fastest(lambda: float(run(python, "-c", IMPORT, cwd=scratch))),
        "`require('zklock')`": fastest(lambda: float(run(NODE, "-e", REQUIRE, cwd=modules.parent))),
        "start of the command, as pip installs it": fastest(lambda: start(python.parent / "zklock")),
        "the same, as npm does": fastest(lambda: start(modules / ".bin" / "zklock")),
        "the same, as cargo does": fastest(lambda: start(installed.command())),
        "*first minute*: both installed, and the README's first programs run": (
            f"{first_minute(scratch):.2g} s"
        ),
    }


def test_the_packages_are_as_promised(python: Path, modules: Path, tmp_path: Path) -> None:
    figures = measured(python, modules, tmp_path)
    rows = [f"| {name} | {figure} | {PROMISED.get(name, '')} |" for name, figure in figures.items()]
    print("\n".join(rows))
    assert exceeded(figures) == []
    if RENEW in os.environ:
        node, (_, native) = run(NODE, "--version", cwd=tmp_path).strip()[1:], installed.tarballs()
        where = native.name.removeprefix("zklock-").rpartition("-")[0]
        made = f"Of `make dist` on {datetime.now(UTC).date()}: {where}, Python {platform.python_version()},"
        lines = [BEGIN, "", made, f"Node {node}. Times are the quickest of {TRIES} starts.", ""]
        lines += ["| | measured | promised at most |", "|---|---:|---:|", *rows, "", END]
        page = PAGE.read_text()
        PAGE.write_text(page.partition(BEGIN)[0] + "\n".join(lines) + page.partition(END)[2])
