"""The wheel, packed by maturin around what cargo has built, and the source distribution."""

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
"""What pip copies beside the interpreter. Maturin takes the directory of that name, if it is there."""

LIMIT = 300
"""Seconds for maturin, which compiles nothing here."""


def maturin(*arguments: str | Path, env: dict[str, str] | None = None) -> None:
    """Runs it in the project; tells what it says if it fails."""
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
    """What cargo tells maturin of the library.

    Building it once more, alone, would compile everything below it again: cargo chooses the features of a
    crate by what is built together.
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
    """Packs the wheel: the extension, and the command beside the interpreter."""
    with TemporaryDirectory() as scratch:
        # Maturin may change what it is given.
        built = Path(shutil.copy2(library, Path(scratch, "lib_zklock.so")))
        messages = Path(scratch, "messages.json")
        finished = {"reason": "build-finished", "success": True}
        messages.write_text("".join(f"{json.dumps(one)}\n" for one in (artifact(built), finished)))
        # What maturin calls to compile.
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
    """Packs the sources: the extension's, the command's, and those of the crates of ours below them."""
    maturin("sdist", "--out", out)
