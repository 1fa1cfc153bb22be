"""Generates the references of other tools: TypeDoc's for Node, and rustdoc's for Rust."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE = ROOT / "bindings-node"
RUST = "rustdoc"
"""Location of the Rust reference on the site."""

MODULES = ("zklock", "zklock/testing", "zklock/prometheus", "zklock/opentelemetry")
"""The entries that programs on Node import."""

QUICKLY = "ZKLOCK_SITE_QUICKLY"
"""Environment variable that leaves the references empty, for a quick look at the rest of the site."""


class GenerationError(Exception):
    """A reference cannot be generated; the message has the tool's output."""


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GenerationError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def node_reference() -> dict[str, str]:
    """Return the pages of the Node reference by name, generated from the types and their comments."""
    if QUICKLY in os.environ:
        return {"index.md": "# Node\n"} | {f"{module}/index.md": f"# {module}\n" for module in MODULES}
    with tempfile.TemporaryDirectory() as made:
        _run(NODE / "node_modules" / ".bin" / "typedoc", "--out", made, cwd=NODE)
        there = Path(made)
        return {str(page.relative_to(there)): page.read_text() for page in sorted(there.rglob("*.md"))}


def rust_reference(there: Path) -> None:
    """Write rustdoc's reference to a directory. A dead link is an error."""
    if QUICKLY in os.environ:
        return
    _run(
        *("cargo", "doc", "--locked", "--no-deps", "--package", "zklock", "--package", "zklock-embedded"),
        "--quiet",
        RUSTDOCFLAGS="-D warnings",
    )
    shutil.copytree(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "doc", there)
