"""The lines of `[patch.crates-io]`: each set of them either builds, or the build names the missing one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import crates
from harness.paths import REPOSITORY

HERE = Path(__file__).parent
CORE = REPOSITORY / "core"
SHIMS = CORE / "shims"
TARGET = REPOSITORY / ".make" / "stock"
LINES = ["async-io", "async-net"]


def manifest(patched: list[str], zklock: str) -> str:
    """The manifest of the program `stock`, with a stand-in for each name."""
    text = (HERE / "stock" / "Cargo.toml").read_text()
    text = re.sub(r"(?m)^zklock = .*$", zklock, text)
    lines = [f'{name} = {{ path = "{SHIMS / name}" }}' for name in patched]
    return "\n".join([text, "[patch.crates-io]", *lines, ""])


def program(at: Path, patched: list[str], zklock: str = f'zklock = {{ path = "{CORE}" }}') -> Path:
    """A program whose lock file is older than its patch lines, updated as the page says."""
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
    """The arguments of `cargo tree` on the page for Rust."""
    page = (REPOSITORY / "docs" / "rust.md").read_text()
    found = re.search(r"`cargo (tree [^`]+)`", page)
    assert found is not None
    return found[1].split()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("patched", "missing"), [(["async-io"], "async-net"), (["async-net"], "async-io")])
def test_one_line_without_the_other_stops_the_build(tmp_path: Path, patched: list[str], missing: str) -> None:
    # Where all else is compiled already, the registry's `async-net` fails beside the check, or before it.
    done = build(program(tmp_path / "program", patched), "--keep-going")
    assert done.returncode != 0
    (ours,) = [line for line in done.stderr.splitlines() if line.startswith("error: zklock")]
    assert f"Add the line `{missing} = {{ git = " in ours
    assert f"cargo update -p {missing}`" in ours


@pytest.mark.timeout(900)
def test_a_second_copy_of_the_transport_stops_the_build(tmp_path: Path) -> None:
    """zklock and its transport are from a registry, the stand-ins and theirs from a repository."""
    repository = repository_of_core(tmp_path / "repository")
    at = program(tmp_path / "program", [], f'zklock = {{ path = "{crates.published()["zklock"]}" }}')
    lines = [f'{name} = {{ git = "file://{repository}" }}' for name in LINES]
    with (at / "Cargo.toml").open("a") as manifest:
        manifest.write("\n".join([*lines, ""]))
    registry = crates.in_place_of_the_registry(["zklock-transport"])
    updated = cargo(at, "update", "--quiet", *(f"--package={name}" for name in LINES), *registry)
    assert updated.returncode == 0, updated.stderr
    done = build(at, *registry)
    assert done.returncode != 0
    (ours,) = [line for line in done.stderr.splitlines() if line.startswith("error[E0277]")]
    assert "but not `zklock-transport`" in ours
    assert "add the line `zklock-transport = { git = " in done.stderr


def repository_of_core(at: Path) -> Path:
    """A repository with the crates of core as they are now."""
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
    """A line for each of the two crates, which names this repository if the stand-in is in place."""
    done = cargo(program(tmp_path / "program", patched), *documented_check())
    assert done.returncode == 0, done.stderr
    shown = {line.split()[0]: str(SHIMS) in line for line in done.stdout.splitlines() if line.strip()}
    assert shown == {name: name in patched for name in LINES}
