"""The platforms, and a table of the results. `make platforms` has built them."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.paths import REPOSITORY
from platforms.emulated import DOWNLOADS, PLATFORMS, Platform

NODE_PACKAGE = REPOSITORY / "bindings-node"
READY = "ready"
"""File that exists in wine's directory after all steps of its setup."""


@pytest.fixture(scope="session", params=PLATFORMS, ids=lambda platform: platform.name)
def platform(request: pytest.FixtureRequest) -> Iterator[Platform]:
    """Return a platform."""
    one: Platform = request.param
    if not one.built.exists():
        pytest.fail(f"the build for {one.name} failed: see above")
    if not one.suffix:
        yield one
        return
    if not (Path(one.env["WINEPREFIX"]) / READY).exists():
        shutil.rmtree(one.env["WINEPREFIX"], ignore_errors=True)
        _set_up_wine(one)
    yield one
    # The processes that keep wine's registry and objects do not end by themselves.
    subprocess.run([one.env["WINESERVER"], "--kill"], env=os.environ | one.env, check=False)


def _set_up_wine(windows: Platform) -> None:
    """Create the directory with wine's registry and drives."""
    # The first start creates the directories, and fails because the libraries are not there yet.
    windows.run("wineboot", "--init")
    system = Path(windows.env["WINEPREFIX"]) / "drive_c" / "windows" / "system32"
    for library in (DOWNLOADS / "dlls").iterdir():
        shutil.copy2(library, system)
    assert windows.run("wineboot", "--update").returncode == 0
    # Node refuses to run on older versions.
    version = ("add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f")
    assert windows.run("reg", *version).returncode == 0
    (Path(windows.env["WINEPREFIX"]) / READY).touch()


@pytest.fixture(scope="session")
def python(platform: Platform) -> Iterator[list[str]]:
    """Return the platform's Python, and an environment variable that makes the wheel importable."""
    if platform.python is None:
        pytest.skip(f"no registry has a Python for {platform.name}")
    (wheel,) = platform.built.glob("*.whl")
    with TemporaryDirectory(prefix="zklock-wheel-") as name:
        zipfile.ZipFile(wheel).extractall(name)
        yield [str(platform.python), platform.file(name)]


@pytest.fixture(scope="session")
def node(platform: Platform) -> Iterator[list[str]]:
    """Return the platform's Node, and a directory in which its programs find the package."""
    if platform.node is None:
        pytest.skip(f"no registry has a Node for {platform.name}")
    with TemporaryDirectory(prefix="zklock-node-") as name:
        modules = Path(name, "node_modules")
        for part in ("dist", "addon/index.js", "package.json", "index.mjs", "testing.mjs"):
            source, copy = NODE_PACKAGE / part, modules / "zklock" / part
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, copy) if source.is_dir() else shutil.copy2(source, copy)
        addon = modules / platform.addon
        addon.mkdir()
        file = f"{platform.addon.replace('zklock-', 'zklock.', 1)}.node"
        shutil.copy2(platform.built / "zklock.node", addon / file)
        (addon / "package.json").write_text(
            f'{{"name": "{platform.addon}", "version": "0.1.0", "main": "{file}"}}'
        )
        yield [str(platform.node), name]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a table of the results: the tests as rows, the platforms as columns."""
    table: dict[str, dict[str, str]] = {}
    notes = []
    for word in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(word, []):
            test, _, column = report.nodeid.rpartition("::")[2].rstrip("]").partition("[")
            if report.when == "call" or word != "passed":
                table.setdefault(test.removeprefix("test_"), {})[column] = (
                    "not run" if word == "skipped" else word
                )
            if word == "skipped":
                notes.append(f"{test.removeprefix('test_')} on {column}: {report.longrepr[2]}")
    names = [platform.name for platform in PLATFORMS]
    terminalreporter.section("platforms")
    terminalreporter.write_line("  ".join([" " * 44, *(name.ljust(15) for name in names)]))
    for test, columns in table.items():
        cells = (columns.get(name, "").ljust(15) for name in names)
        terminalreporter.write_line("  ".join([test.replace("_", " ").ljust(44), *cells]))
    for note in sorted(notes):
        terminalreporter.write_line(f"not run: {note}")
