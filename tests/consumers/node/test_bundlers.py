"""A bundled program locks like an unbundled one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from consumers.node.project import Program, Project, lines
from harness.observer import Observer
from harness.paths import NODE
from harness.server import Standalone


@dataclass(frozen=True)
class Bundle:
    """A bundler's output for `app/main.mjs`."""

    bundler: str
    script: str
    """`external`: the package stays in `node_modules`. `embedded`: the bundle contains it, with its addon."""
    file: str

    def __str__(self) -> str:
        return f"{self.bundler}-{self.script}"


BUNDLES = [
    Bundle("esbuild", "external", "main.mjs"),
    Bundle("esbuild", "embedded", "main.js"),
    Bundle("webpack", "external", "main.cjs"),
    Bundle("webpack", "embedded", "main.cjs"),
    Bundle("rollup", "external", "main.mjs"),
    Bundle("ncc", "external", "index.mjs"),
    Bundle("ncc", "embedded", "index.mjs"),
]


def check(
    bundle: Path, server: Standalone, observer: Observer, path: str, runtime: Sequence[str] = (NODE,)
) -> None:
    """Assert that two processes exclude each other.

    The first process releases the lock explicitly, then acquires it again and frees it by exiting.
    """
    with Program(bundle, server.hosts, path, runtime) as first:
        assert first.line() == "free"
        assert (first.line() or "").startswith("holding, with token ")
        with Program(bundle, server.hosts, path, runtime) as second:
            assert second.line() == "taken: LockTimeoutError LOCK_TIMEOUT"
            observer.wait_queue(path, 2)
            assert second.silent()
            first.tell()
            assert first.line() == "released"
            assert (second.line() or "").startswith("holding, with token ")
            # The first process is in the queue again and does not hold the lock.
            observer.wait_queue(path, 2)
            assert first.silent()
            second.tell()
            assert second.line() == "released"
            assert first.line() == "holding until it exits"
            observer.wait_queue(path, 2)
            assert second.silent()
            # The session timeout is longer than this wait.
            first.tell()
            assert (first.line(), first.status()) == (None, 0)
            assert second.line() == "holding until it exits"
            second.tell()
            assert (second.line(), second.status()) == (None, 0)
    observer.wait_queue(path, 0)


@pytest.mark.parametrize("bundle", BUNDLES, ids=str)
def test_a_bundled_program_locks(
    bundle: Bundle, project: Project, server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    said = project.script(bundle.bundler, bundle.script)
    assert not lines(said, "error", "warning"), said
    built = project.directory / bundle.bundler / bundle.script
    if bundle.script == "embedded":
        # Run the bundle in another directory, to show that it is complete.
        built = Path(shutil.copytree(built, tmp_path / "elsewhere"))
        assert list(built.rglob("*.node")), "the addon is not part of it"
    else:
        assert not list(built.rglob("*.node"))
    check(built / bundle.file, server, observer, path)


def test_a_program_that_is_not_bundled_locks(
    project: Project, server: Standalone, observer: Observer, path: str
) -> None:
    check(project.directory / "app" / "main.mjs", server, observer, path)


def test_a_bundle_without_its_addon_says_what_to_do(
    project: Project, server: Standalone, path: str, tmp_path: Path
) -> None:
    project.script("esbuild", "embedded")
    built = Path(shutil.copytree(project.directory / "esbuild" / "embedded", tmp_path / "elsewhere"))
    for addon in built.glob("*.node"):
        addon.unlink()
    with Program(built / "main.js", server.hosts, path) as program:
        said = []
        while (line := program.line()) is not None:
            said.append(line)
        assert program.status() == 1
    text = "\n".join(said)
    assert "ADDON_MISSING" in text
    assert "in a bundler, mark zklock as external" in text
