"""The wheel, packed by maturin around the library that `make python` built, and installed alone."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LIBRARY = PROJECT / "python" / "zklock" / "_zklock.abi3.so"
# What pytest is made of.
PYTEST = ("pytest", "iniconfig", "packaging", "pluggy", "pygments")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a program prints, which must succeed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def artifact(directory: Path) -> dict[str, object]:
    """What cargo tells maturin of the library.

    Building it once more, alone, would compile everything below it again: cargo chooses the features of a
    crate by what is built together.
    """
    described = run("cargo", "metadata", "--locked", "--no-deps", "--format-version=1", cwd=PROJECT)
    (package,) = [one for one in json.loads(described)["packages"] if one["name"] == "zklock-python"]
    (target,) = [one for one in package["targets"] if one["name"] == "_zklock"]
    # Maturin may change what it is given.
    library = directory / "lib_zklock.so"
    library.write_bytes(LIBRARY.read_bytes())
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


def pack(directory: Path) -> Path:
    """The wheel."""
    messages = directory / "messages.json"
    finished = {"reason": "build-finished", "success": True}
    messages.write_text("".join(f"{json.dumps(one)}\n" for one in (artifact(directory), finished)))
    # What maturin calls to compile.
    cargo = directory / "cargo"
    cargo.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(messages))}\n")
    cargo.chmod(0o755)
    maturin = ("-m", "maturin", "build", "--profile", "dev", "--out", directory)
    run(sys.executable, *maturin, cwd=PROJECT, CARGO=str(cargo))
    (wheel,) = directory.glob("*.whl")
    return wheel


def install(wheel: Path, directory: Path) -> Path:
    """The interpreter of a new environment with the wheel, and with the pytest of this one."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    pip = ("-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(sys.executable, *pip, wheel, cwd=directory)
    (packages,) = directory.glob("lib/python3*/site-packages")
    for name in PYTEST:
        files = importlib.metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(pytest_home()) / top)
    return python


def pytest_home() -> Path:
    """Where this interpreter has its packages."""
    return Path(str(importlib.metadata.distribution("pytest").locate_file("")))
