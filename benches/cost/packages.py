"""Measures the time of an import and the size of the installed packages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from harness.paths import JARS, NODE, PYTHON
from locks.peers import TARGET

Json = dict[str, float]


def _seconds(command: list[str], env: dict[str, str], times: int) -> float:
    """Return the median time of a command, after a run that fills the caches."""
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        subprocess.run(command, env=env, check=True)
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


def imported(command: list[str], nothing: str, text: str, env: dict[str, str], times: int) -> float:
    """Return the milliseconds that an import adds to the time of a program that does nothing."""
    bare, full = (_seconds([*command, one], env, times) for one in (nothing, text))
    return round((full - bare) * 1e3, 1)


def _files(root: Path) -> list[Path]:
    return [one for one in root.rglob("*") if one.is_file() and "__pycache__" not in one.parts]


def _stripped(file: Path) -> int:
    """Return the size of a library or program without symbols, or the full size of any other file."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, file.name)
        done = subprocess.run(["strip", "-o", target, file], check=False, capture_output=True)
        return (target if done.returncode == 0 else file).stat().st_size


def size(files: Iterable[Path]) -> float:
    """Return the size of installed files in MB, without symbols, which published packages lack too."""
    total = 0
    for file in files:
        total += _stripped(file) if file.suffix in (".so", ".node", "") else file.stat().st_size
    return round(total / 1e6, 2)


def _kazoo() -> list[Path]:
    found = importlib.util.find_spec("kazoo")
    assert found is not None
    assert found.origin is not None
    return _files(Path(found.origin).parent)


def _curator() -> list[Path]:
    """Return the jars of Curator's recipes and of the ZooKeeper client, without those of the server alone."""
    needed = ("curator", "zookeeper", "guava", "failureaccess", "netty", "slf4j-api")
    return [jar for jar in JARS.glob("*.jar") if jar.name.startswith(needed)]


def packages(names: Iterable[str], quick: bool) -> dict[str, Json]:
    """Return sizes in MB and times in milliseconds of these programs."""
    times = 3 if quick else 9
    python, node = TARGET / "python" / "zklock", TARGET / "node" / "index.mjs"

    def in_python(module: str) -> float:
        env = {"PYTHONPATH": str(python.parent)}
        return imported([PYTHON, "-c"], "pass", f"import {module}", env, times)

    def in_node() -> float:
        command = [NODE, "--input-type=module", "-e"]
        return imported(command, "0", f"await import({str(node)!r})", dict(os.environ), times)

    measures: dict[str, Callable[[], Json]] = {
        "python": lambda: {"import_ms": in_python("zklock"), "size_mb": size(_files(python))},
        "node": lambda: {"import_ms": in_node(), "size_mb": size(_files(node.parent))},
        "kazoo": lambda: {"import_ms": in_python("kazoo.client"), "size_mb": size(_kazoo())},
        "curator": lambda: {"size_mb": size(_curator())},
    }
    return {name: measures[name]() for name in names if name in measures}
