"""Fail if folders of a Rust crate use each other in a circle. The files of one folder may do so."""

from __future__ import annotations

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("core/src", "core/transport/src", "embedded/src", "cli/src", "tests/simulation/src")
BINDINGS = ("bindings-python/src", "bindings-node/native")

_NO_CODE = re.compile(r'''//[^\n]*|'(?:\\.|[^\\'])'|"(?:[^"\\]|\\.)*"''', re.DOTALL)
_EXPORT = re.compile(r"pub(?:\([^)]*\))? use (?:self::|crate::)?(\w+)::([^;]*);")


def names(text: str, depth: int) -> set[str]:
    """Return the names at the top of the crate that a module of this depth uses."""
    nested = None
    while text != nested:
        nested, text = text, re.sub(r"(?<!crate)::\{[^{}]*\}", "", text)
    groups = ",".join(re.findall(r"\bcrate::\{([^{}]*)\}", text))
    from_parent = rf"(?<!super::)\b(?:super::){{{depth}}}(?!super)(\w+)"
    return {
        *re.findall(r"\bcrate::(\w+)", text),
        *re.findall(from_parent, text),
        *re.findall(r"(?:^|,)\s*(\w+)", groups),
    }


def uses(source: Path) -> dict[str, set[str]]:
    """Map each top module of a crate to the top modules that its files name."""
    texts = {file.relative_to(source): _NO_CODE.sub("", file.read_text()) for file in source.rglob("*.rs")}
    roots = [texts.pop(name) for name in (Path("lib.rs"), Path("main.rs")) if name in texts]
    # A name that the crate's root exports stands for its module.
    exports = _EXPORT.findall("".join(roots))
    homes = {name: module for module, path in exports for name in re.findall(r"(\w+)\s*(?:,|\}|$)", path)}
    found: dict[str, set[str]] = {}
    for file, text in texts.items():
        module = file.parent.parts if file.stem == "mod" else file.with_suffix("").parts
        found.setdefault(module[0], set()).update(homes.get(name, name) for name in names(text, len(module)))
    return {module: (targets & found.keys()) - {module} for module, targets in found.items()}


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
            arrows[members[1]] -= {members[0]}
        else:
            return []


if __name__ == "__main__":
    circles = {crate: circle(ROOT / crate) for crate in (*CRATES, *BINDINGS)}
    found = [f"{crate}: {' <- '.join(members)}" for crate, members in circles.items() if members]
    sys.exit("\n".join(found) or None)
