"""Installs the wheel into a new virtual environment, which uses the pytest of the current one."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from harness import installed
from harness.installed import run as run

# The packages that pytest needs.
PYTEST = ("pytest", "iniconfig", "packaging", "pluggy", "pygments")


def install(directory: Path) -> Path:
    """Return the interpreter of a new environment."""
    python = installed.environment(directory)
    (packages,) = directory.glob("lib/python3*/site-packages")
    for name in PYTEST:
        files = importlib.metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(pytest_home()) / top)
    return python


def pytest_home() -> Path:
    """Return the directory of this interpreter's packages."""
    return Path(str(importlib.metadata.distribution("pytest").locate_file("")))
