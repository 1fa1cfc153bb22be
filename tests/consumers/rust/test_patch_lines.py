"""Tests the lines of `[patch.crates-io]`: each subset builds, or the build error names the missing line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import crates
from harness.paths import REPOSITORY

HERE = Path(__file__).parent
CORE = REPOSITORY / "core"
SHIMS = CORE / "shims"
TARGET = REPOSITORY / ".make" / "stock"
LINES = ["async-io", "async-net"]


def manifest(patched: list[str], zklock: str) -> str:
    """Return the manifest of the program `stock`, with a patch line for each name."""
    text = (HERE / "stock" / "Cargo.toml").read_text()
    text = re.sub(r"(?m)^zklock = .*$", zklock, text)
    lines = [f'{name} = {{ path = "{SHIMS / name}" }}' for name in patched]
    return "\n".join([text, "[patch.crates-io]", *lines, ""])


def program(at: Path, patched: list[str], zklock: str = f'zklock = {{ path = "{CORE}" }}') -> Path:
    """Create a program, add the patch lines, and update its lock file as docs/rust.md describes."""
    shutil.copytree(HERE / "stock", at)
    (at / "Cargo.toml").write_text(manifest(patched, zklock))
    if patched:
        cargo(at, "update", "--quiet", *(f"--package={name}" for name in patched))
    return at


def cargo(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cargo", *arguments], cwd=at, capture_output=True, text=True, timeout=800, check=False
    )


def build(at: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return cargo(at, "build", "--quiet", "--target-dir", str(TARGET), *options)


def documented_check() -> list[str]:
    """Return the arguments of `cargo tree` in docs/rust.md."""
    page = (REPOSITORY / "docs" / "rust.md").read_text()
    found = re.search(r"`cargo (tree [^`]+)`", page)
    assert found is not None
    return found[1].split()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("patched", "missing"), [(["async-io"], "async-net"), (["async-net"], "async-io")])
def test_one_line_without_the_other_stops_the_build(tmp_path: Path, patched: list[str], missing: str) -> None:
    # With `--keep-going`, our check runs even if the registry's `async-net` fails to compile first.
    done = build(program(tmp_path / "program", patched), "--keep-going")
    assert done.returncode != 0
    (ours,) = [line for line in done.stderr.splitlines() if line.startswith("error: zklock")]
    assert f"Add the line `{missing} = {{ git = " in ours
    assert f"cargo update -p {missing}`" in ours


@pytest.mark.timeout(900)
def test_a_second_copy_of_the_transport_stops_the_build(tmp_path: Path) -> None:
    """The build fails if the shims are from a repository, but zklock is from a registry.

    The program would then contain two copies of the transport.
    """
    repository = repository_of_core(tmp_path / "repository")
    at = program(tmp_path / "program", [], f'zklock = {{ path = "{crates.published()["zklock"]}" }}')
    lines = [f'{name} = {{ git = "file://{repository}" }}' for name in LINES]
    with (at / "Cargo.toml").open("a") as manifest:
        manifest.write("\n".join([*lines, ""]))
    registry = crates.in_place_of_the_registry(["zklock-jute", "zklock-transport"])
    updated = cargo(at, "update", "--quiet", *(f"--package={name}" for name in LINES), *registry)
    assert updated.returncode == 0, updated.stderr
    done = build(at, *registry)
    assert done.returncode != 0
    (ours,) = [line for line in done.stderr.splitlines() if line.startswith("error[E0277]")]
    assert "but not `zklock-transport`" in ours
    assert "add the line `zklock-transport = { git = " in done.stderr


def repository_of_core(at: Path) -> Path:
    """Create a Git repository with core's crates in their current state."""
    shutil.copytree(CORE, at / "core")
    shutil.copy2(REPOSITORY / "Cargo.toml", at)
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message=core"]):
        subprocess.run(["git", *command], cwd=at, check=True)
    return at


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "patched", [[], ["async-io"], ["async-net"], LINES], ids=lambda names: "+".join(names)
)
def test_the_check_of_the_page_is_right(tmp_path: Path, patched: list[str]) -> None:
    """The command that docs/rust.md shows prints whether each of the two crates is patched.

    The line of a patched crate names this repository.
    """
    done = cargo(program(tmp_path / "program", patched), *documented_check())
    assert done.returncode == 0, done.stderr
    shown = {line.split()[0]: str(SHIMS) in line for line in done.stdout.splitlines() if line.strip()}
    assert shown == {name: name in patched for name in LINES}
