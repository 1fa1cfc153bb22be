"""Fail if folders of a Rust crate use each other in a circle. The files of one folder may do so."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = (
    "core/src",
    "core/transport/src",
    "embedded/src",
    "cli/src",
    "tests/simulation/src",
    "bindings-python/src",
    "bindings-node/native",
)

_NO_CODE = re.compile(r'''//[^\n]*|'(?:\\.|[^\\'])'|"(?:[^"\\]|\\.)*"''', re.DOTALL)
_PATH = re.compile(r"\bcrate::(?:(\w+)|(\{))")
_FROM_PARENT = re.compile(r"\b((?:super::)+)(\w+)")
_EXPORT = re.compile(r"pub(?:\([^)]*\))? use (?:self::|crate::)?(\w+)((?:::\w+)*)(?:::\{([^}]*)\})?")


def exports(root_file: str) -> dict[str, str]:
    """Map each name that the crate's root re-exports to the top module that defines it."""
    homes = {}
    for module, path, group in _EXPORT.findall(root_file):
        for name in [*group.split(","), path.rpartition("::")[2]]:
            homes[name.split(" as ")[-1].rpartition("::")[2].strip()] = module
    return homes


def top_names(text: str, opening: int) -> Iterator[str]:
    """Return the first segment of each path in the group of a `use` whose brace is at `opening`."""
    depth, position = 0, opening
    while True:
        if text[position] in "{}":
            depth += 1 if text[position] == "{" else -1
        if depth == 0:
            return
        if depth == 1 and text[position] in "{," and (name := re.match(r"\s*(\w+)", text[position + 1 :])):
            yield name[1]
        position += 1


def uses(source: Path) -> dict[str, set[str]]:
    """Map each top module of a crate to the top modules that its files name."""
    root = next(source / name for name in ("lib.rs", "main.rs") if (source / name).exists())
    homes = exports(_NO_CODE.sub("", root.read_text()))
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.rs")):
        place = file.relative_to(source).with_suffix("").parts
        module = place[:-1] if place[-1] == "mod" else place
        if len(place) == 1 and place[0] in {"lib", "main"}:
            continue
        text = _NO_CODE.sub("", file.read_text())
        names = {name for name, _ in _PATH.findall(text) if name}
        for group in _PATH.finditer(text):
            if group[2]:
                names.update(top_names(text, group.start(2)))
        names.update(name for up, name in _FROM_PARENT.findall(text) if up.count("super") == len(module))
        targets = {homes.get(name, name) for name in names} - {module[0]}
        existing = {t for t in targets if (source / t).is_dir() or (source / f"{t}.rs").exists()}
        found.setdefault(module[0], set()).update(existing)
    return found


def circle(source: Path) -> list[str]:
    """Return the modules of a circle in which a folder takes part, or nothing."""
    arrows = uses(source)
    files = {name for name in arrows if not (source / name).is_dir()}
    while True:
        try:
            TopologicalSorter(arrows).prepare()
        except CycleError as error:
            members: list[str] = error.args[1]
            if not files.issuperset(members):
                return members
            # Files next to each other may use each other: look for other circles.
            arrows[members[1]] = arrows[members[1]] - {members[0]}
        else:
            return []


def main() -> int:
    """Print the first circle of each crate."""
    found = [f"{crate}: {' <- '.join(members)}" for crate in CRATES if (members := circle(ROOT / crate))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
