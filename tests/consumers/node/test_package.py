"""The package as users install it, check it and compile against it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from consumers.node.project import HERE, Project, run
from consumers.node.test_bundlers import check
from harness.observer import Observer
from harness.paths import NODE, NODE_PACKAGE, REPOSITORY
from harness.server import Standalone


def tool(*path: str) -> Path:
    """Return the path of a tool's file."""
    return HERE.joinpath("node_modules", *path)


def test_the_lock_file_names_no_registry() -> None:
    packages = json.loads((HERE / "package-lock.json").read_text())["packages"]
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


def test_publint_finds_nothing(tarball: Path, tmp_path: Path) -> None:
    assert "All good!" in run(tool(".bin", "publint"), tarball, "--strict", cwd=tmp_path)


def test_attw_finds_nothing(tarball: Path, tmp_path: Path) -> None:
    said = run(tool(".bin", "attw"), tarball, "--format", "ascii", cwd=tmp_path)
    assert "No problems found" in said, said


def test_the_oldest_typescript_compiles_what_users_write(project: Project, tmp_path: Path) -> None:
    pinned = json.loads((HERE / "package.json").read_text())["devDependencies"]["typescript-min"]
    oldest = ".".join(pinned.removeprefix("npm:typescript@").split(".")[:2])
    for page in (NODE_PACKAGE / "README.md", REPOSITORY / "docs" / "bundlers.md"):
        # The page's text without its line breaks.
        words = " ".join(page.read_text().split())
        assert f"TypeScript {oldest} or later" in words, f"{page.name} states another minimum"
    consumer = tmp_path / "consumer"
    shutil.copytree(NODE_PACKAGE / "test" / "types", consumer)
    (consumer / "node_modules").symlink_to(project.modules)
    tsc = tool("typescript-min", "bin", "tsc")
    assert run(NODE, tsc, "--version", cwd=consumer).startswith(f"Version {oldest}.")
    assert run(NODE, tsc, "--project", ".", cwd=consumer) == ""
    assert (consumer / "out" / "esm.mjs").exists()
    # Check that the compiler does check types.
    (consumer / "esm.mts").write_text("import { Client } from 'zklock';\nvoid Client.connect(1);\n")
    with pytest.raises(AssertionError, match=r"TS2345"):
        run(NODE, tsc, "--project", ".", cwd=consumer)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_linked_package_locks(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    env = {"npm_config_prefix": str(tmp_path / "global"), "npm_config_offline": "true"}
    (tmp_path / "global" / "lib").mkdir(parents=True)
    consumer = tmp_path / "consumer"
    shutil.copytree(HERE / "app", consumer)
    (consumer / "package.json").write_text('{ "private": true }\n')
    run("npm", "link", "--ignore-scripts", cwd=NODE_PACKAGE, env=env)
    run("npm", "link", "zklock", cwd=consumer, env=env)
    linked = consumer / "node_modules" / "zklock"
    assert linked.is_symlink()
    assert linked.resolve() == NODE_PACKAGE.resolve()
    check(consumer / "main.mjs", server, observer, path)
