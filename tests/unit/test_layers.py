"""`make lint` finds circular dependencies between folders in each of the three languages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import REPOSITORY as ROOT
from rust_layers import circle

ONE_WAY = {"lib.rs": "mod a;\nmod b;", "a/mod.rs": "mod one;", "b/mod.rs": "pub struct B;"}
RUST_CIRCLES = {
    "a path": {"a/one.rs": "pub struct A(crate::b::B);", "b/mod.rs": "pub struct B(crate::a::one::A);"},
    "a group": {"a/one.rs": "use crate::{b::B, c};", "b/mod.rs": "use crate::{a::one::A};"},
    "super": {"a/one.rs": "use super::super::b::B;", "b/mod.rs": "use super::a::one::A;"},
    "a re-export": {
        "lib.rs": "mod a;\nmod b;\npub use b::B;",
        "a/one.rs": "use crate::B;",
        "b/mod.rs": "use crate::a::one::A;",
    },
}
NO_RUST_CIRCLES = {
    "one way": {"a/one.rs": "use crate::b::B;"},
    "a comment": {"a/one.rs": "use crate::b::B;", "b/mod.rs": "// crate::a::one\npub struct B;"},
    "a string": {"a/one.rs": "use crate::b::B;", "b/mod.rs": 'const B: &str = "crate::a::one";'},
    "files next to each other": {"c.rs": "use crate::d::D;", "d.rs": "use crate::c::C;"},
}


def written(root: Path, tree: dict[str, str]) -> Path:
    """Write the files of a source tree."""
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("tree", RUST_CIRCLES.values(), ids=RUST_CIRCLES.keys())
def test_a_circle_of_rust_is_found(tree: dict[str, str], tmp_path: Path) -> None:
    assert set(circle(written(tmp_path, ONE_WAY | tree))) == {"a", "b"}


@pytest.mark.parametrize("tree", NO_RUST_CIRCLES.values(), ids=NO_RUST_CIRCLES.keys())
def test_other_rust_has_no_circle(tree: dict[str, str], tmp_path: Path) -> None:
    assert circle(written(tmp_path, ONE_WAY | tree)) == []


@pytest.mark.parametrize("circular", [False, True])
def test_a_circle_of_python_is_found(circular: bool, tmp_path: Path) -> None:
    back = "from zklock.a import one" if circular else ""
    written(
        tmp_path,
        {
            "zklock/__init__.py": "",
            "zklock/a/__init__.py": "",
            "zklock/a/one.py": "from zklock.b import two",
            "zklock/b/__init__.py": "",
            "zklock/b/two.py": back,
        },
    )
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(
        [*command, ROOT / "bindings-python" / "pyproject.toml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(circular), done.stdout
    assert ("BROKEN" in done.stdout) == circular


@pytest.mark.parametrize("circular", [False, True])
def test_a_circle_of_typescript_is_found(circular: bool, tmp_path: Path) -> None:
    back = "import type { A } from '../a/one';\n" if circular else ""
    written(
        tmp_path,
        {
            "src/a/one.ts": "import { B } from '../b/two';\nexport class A extends B {}\n",
            "src/b/two.ts": f"{back}export class B {{ a?: {'A' if circular else 'string'}; }}\n",
            "tsconfig.json": "{}",
        },
    )
    package = ROOT / "bindings-node"
    command: list[str | Path] = [
        package / "node_modules/.bin/depcruise",
        "--config",
        package / ".dependency-cruiser.cjs",
        "src",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == circular, done.stdout + done.stderr
    assert ("no-circle" in done.stdout) == circular
