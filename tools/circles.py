"""Fails if folders use names of each other in a circle. Files of one folder may use each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from arrows.graph import Arrows
from arrows.python import Package
from arrows.rust import Crate
from arrows.typescript import Directory

ROOT = Path(__file__).resolve().parent.parent

Read = Callable[[Path], Arrows]

TREES: list[tuple[str, Read]] = [
    ("core/src", lambda source: Crate(source).arrows()),
    ("core/transport/src", lambda source: Crate(source).arrows()),
    ("embedded/src", lambda source: Crate(source).arrows()),
    ("cli/src", lambda source: Crate(source).arrows()),
    ("tests/simulation/src", lambda source: Crate(source).arrows()),
    ("bindings-python/src", lambda source: Crate(source).arrows()),
    ("bindings-python/python/zklock", lambda source: Package(source).arrows()),
    ("bindings-node/native", lambda source: Crate(source).arrows()),
    ("bindings-node/src", lambda source: Directory(source).arrows()),
]


def is_folder(entry: Path) -> bool:
    """Return whether an entry is a real folder, and not a Rust file with the folder of its own modules."""
    return entry.is_dir() and not entry.with_suffix(".rs").exists()


def circles(root: Path) -> list[str]:
    """Return a description of every circle in a repository."""
    found = []
    for directory, read in TREES:
        arrows = read(root / directory).between_folders(root / directory)
        for members in arrows.components():
            if any(is_folder(entry) for entry in members):
                found.append("\n".join(arrows.explain(members, root)))
    return found


def main() -> int:
    """Print the circles. Return 1 if there are any."""
    found = circles(ROOT)
    print("\n".join(found) or "no circle")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
