"""Packs the wheel with maturin, around the files that cargo has built, and the source distribution."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "bindings-python"
DATA = PROJECT / "zklock._zklock.data"
"""Directory of the files that pip copies next to the interpreter. Maturin includes a directory of this name
if it exists.
"""

LIMIT = 300
"""Timeout for maturin in seconds. It compiles nothing here."""


def maturin(*arguments: str | Path, env: dict[str, str] | None = None) -> None:
    """Run maturin in the project. Show its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "maturin", *map(str, arguments)],
        cwd=PROJECT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"maturin {arguments[0]} failed:\n{done.stdout}")


def artifact(library: Path) -> dict[str, object]:
    """Return cargo's message to maturin about the library.

    If maturin built the library again, it would compile all dependencies again: cargo chooses the features of
    a crate by the set of crates that it builds together.
    """
    listing = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    described = subprocess.run(listing, cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    (package,) = [one for one in json.loads(described)["packages"] if one["name"] == "zklock-python"]
    (target,) = [one for one in package["targets"] if one["name"] == "_zklock"]
    profile = {"opt_level": "0", "debug_assertions": True, "overflow_checks": True, "test": False}
    return {
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": target,
        "profile": profile,
        "features": [],
        "filenames": [str(library)],
        "executable": None,
        "fresh": True,
    }


def wheel(library: Path, command: Path, profile: str, out: Path) -> None:
    """Pack the wheel: the extension, and the command next to the interpreter."""
    with TemporaryDirectory() as scratch:
        # Maturin can change its input files.
        built = Path(shutil.copy2(library, Path(scratch, "lib_zklock.so")))
        messages = Path(scratch, "messages.json")
        finished = {"reason": "build-finished", "success": True}
        messages.write_text("".join(f"{json.dumps(one)}\n" for one in (artifact(built), finished)))
        # The fake cargo that maturin runs to compile.
        cargo = Path(scratch, "cargo")
        cargo.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(messages))}\n")
        cargo.chmod(0o755)
        (DATA / "scripts").mkdir(parents=True, exist_ok=True)
        shutil.copy2(command, DATA / "scripts" / "zklock")
        try:
            maturin("build", "--profile", profile, "--out", out, env={"CARGO": str(cargo)})
        finally:
            shutil.rmtree(DATA)


def sdist(out: Path) -> None:
    """Pack the sources of the extension, the command, and all our crates that they depend on."""
    maturin("sdist", "--out", out)
