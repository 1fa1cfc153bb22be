"""The installed wheel: its pytest plugin, and the examples in `docs/testing.md`."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
import wheel
from harness import installed
from test_readme import README

PAGE = README.parent.parent / "docs" / "testing.md"
LOST_LOCK_LINES = 10


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter that has only the wheel and pytest."""
    return wheel.install(tmp_path_factory.mktemp("installed") / "venv")


def snippets() -> dict[str, str]:
    """Return the page's snippets by file name. Each snippet begins with a comment that has this name."""
    found = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(dict(found)) == len(found)
    return dict(found)


def write(directory: Path, files: dict[str, str]) -> None:
    """Write files."""
    for name, code in files.items():
        (directory / name).write_text(code)


def test_the_contents_of_the_wheel() -> None:
    packed = installed.wheel()
    names = zipfile.ZipFile(packed).namelist()
    assert {"zklock/testing/__main__.py", "zklock_pytest/__init__.py", "zklock/_zklock.abi3.so"} <= set(names)
    (entry,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "[pytest11]\nzklock=zklock_pytest" in zipfile.ZipFile(packed).read(entry).decode().replace(" ", "")


def test_the_examples_of_the_page_pass(python: Path, tmp_path: Path) -> None:
    files = snippets()
    write(tmp_path, files)
    tests = sum(code.count("def test_") for code in files.values())
    assert tests >= 5
    out = wheel.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert f"{tests} passed" in out


def test_a_test_of_a_lost_lock_is_short(python: Path, tmp_path: Path) -> None:
    """The documented test fails if the job does not notice the loss."""
    code = snippets()["test_lost_lock.py"]
    assert len([line for line in code.splitlines() if line.strip()]) <= LOST_LOCK_LINES, code
    write(tmp_path, {**snippets(), "test_lost_lock.py": code.replace("zklock_server.expire(", "bool(")})
    with pytest.raises(AssertionError, match="1 failed"):
        wheel.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lost_lock.py", cwd=tmp_path)


def test_zklock_is_imported_only_for_a_test_that_asks_for_the_fixture(python: Path, tmp_path: Path) -> None:
    test = """
import sys

def test_without():
    assert "zklock_pytest" in sys.modules
    assert not [name for name in sys.modules if name.split(".")[0] == "zklock"]

def test_with(zklock_server, request):
    assert "zklock.testing" in sys.modules
    request.config.hosts = zklock_server.hosts

def test_after(zklock_server, request):
    assert zklock_server.hosts != request.config.hosts
    assert zklock_server.tree() == {}
"""
    write(tmp_path, {"test_imports.py": test})
    out = wheel.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "3 passed" in out
    listed = wheel.run(python, "-m", "pytest", "--fixtures", "-p", "no:cacheprovider", cwd=tmp_path)
    described = r"zklock_server .*\n +Provide a ZooKeeper server in this process for a single test"
    assert re.search(described, listed), listed
