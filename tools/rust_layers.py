"""Fail if the folders of a Rust crate depend on each other in a circle.

The files of one folder can depend on each other in a circle.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("core/src", "core/transport/src", "embedded/src", "cli/src", "tests/simulation/src")
BINDINGS = ("bindings-python/src", "bindings-node/native")

_NO_CODE = re.compile(r'''//[^\n]*|'(?:\\.|[^\\'])'|"(?:[^"\\]|\\.)*"''', re.DOTALL)
_EXPORT = re.compile(r"pub(?:\([^)]*\))? use (?:self::|crate::)?(\w+)::([^;]*);")


def names(text: str, depth: int) -> set[str]:
    """Return the top-level modules of the crate that a module uses. `depth` is the depth of the module."""
    nested = None
    while text != nested:
        nested, text = text, re.sub(r"(?<!crate)::\{[^{}]*\}", "", text)
    groups = ",".join(re.findall(r"\bcrate::\{([^{}]*)\}", text))
    top = rf"\bcrate::(\w+)|(?<!super::)\b(?:super::){{{depth}}}(?!super)(\w+)"
    found = {one or other for one, other in re.findall(top, text)}
    return found.union(re.findall(r"(?:^|,)\s*(\w+)", groups))


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
    """Return the folders that use themselves, directly or through others."""
    arrows = uses(source)
    for _ in range(len(arrows)):
        arrows = {name: to.union(*(arrows[other] for other in to)) for name, to in arrows.items()}
    return [name for name in sorted(arrows) if (source / name).is_dir() and name in arrows[name]]


if __name__ == "__main__":
    found = {crate: folders for crate in (*CRATES, *BINDINGS) if (folders := circle(ROOT / crate))}
    sys.exit(str(found) if found else None)
