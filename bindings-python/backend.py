"""Builds the packages with maturin, and adds the `zklock` command to the wheel.

pip calls this module (PEP 517), in a clone and in a source distribution. cargo builds the command, which is a
native program. If you call maturin directly, build the command first: `python backend.py --profile command`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "zklock._zklock.data" / "scripts"
"""Directory whose files pip installs next to the interpreter. Maturin finds it by its name, if it exists."""

Settings = Mapping[str, str] | None


def command(*options: str) -> None:
    """Build the command, and copy it to the directory where maturin finds it."""
    # Run cargo in this directory. It is a member of the workspace in a clone, and the workspace's root in a
    # source distribution.
    cargo = [os.environ.get("CARGO", "cargo"), "build", "--package=zklock-cli", "--bin=zklock", *options]
    cargo.append("--message-format=json-render-diagnostics")
    built = subprocess.run(cargo, cwd=HERE, stdout=subprocess.PIPE, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    (program,) = [message["executable"] for message in messages if message.get("executable")]
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, SCRIPTS / f"zklock{Path(program).suffix}")


def chosen() -> Sequence[str]:
    """Return cargo's options for the profile with which maturin builds the extension."""
    words = shlex.split(os.environ.get("MATURIN_PEP517_ARGS", ""))
    return words[words.index("--profile") :][:2] if "--profile" in words else ["--release"]


@contextmanager
def program() -> Iterator[None]:
    """Run the block with the built command. Delete the command afterwards, so that a later run does not pack
    it.
    """
    try:
        command(*chosen())
        yield
    finally:
        shutil.rmtree(SCRIPTS.parent, ignore_errors=True)


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Hook that pip calls."""
    import maturin

    with program():
        name: str = maturin.build_wheel(directory, settings, metadata)
    return name


def build_editable(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Hook that pip calls."""
    import maturin

    with program():
        name: str = maturin.build_editable(directory, settings, metadata)
    return name


def build_sdist(directory: str, settings: Settings = None) -> str:
    """Build the source distribution, without the command. Tools such as `pip` call this hook."""
    import maturin

    shutil.rmtree(SCRIPTS.parent, ignore_errors=True)
    name: str = maturin.build_sdist(directory, settings)
    return name


def get_requires_for_build_wheel(settings: Settings = None) -> Sequence[str]:
    """Hook that pip calls."""
    import maturin

    names: Sequence[str] = maturin.get_requires_for_build_wheel(settings)
    return names


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(settings: Settings = None) -> Sequence[str]:
    """Hook that pip and build call."""
    import maturin

    names: Sequence[str] = maturin.get_requires_for_build_sdist(settings)
    return names


def prepare_metadata_for_build_wheel(directory: str, settings: Settings = None) -> str:
    """Hook that pip calls."""
    import maturin

    name: str = maturin.prepare_metadata_for_build_wheel(directory, settings)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel

if __name__ == "__main__":
    command(*sys.argv[1:])
