"""mypy and pyright, both strict, accept the documented uses, and refuse documented misuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PROJECT = TESTS.parent
PACKAGE = PROJECT / "python"
DOCUMENTED, MISUSES = TESTS / "typed" / "documented.py", TESTS / "typed" / "misuses.py"
PAGES = [
    "README.md",
    "bindings-python/README.md",
    "docs/election.md",
    "docs/from-kazoo.md",
    "docs/observability.md",
    "docs/python.md",
]

Check = Callable[[Path, Path], dict[int, str]]


def output(*command: str, cwd: Path) -> str:
    """Return the output of a checker. It can report errors."""
    # pyright asks the first `python` where packages are.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env={**os.environ, "MYPYPATH": str(PACKAGE), "PYTHONPATH": str(PACKAGE), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(file: Path, directory: Path) -> dict[int, str]:
    """Return the errors of mypy, by line."""
    # All tests share the cache for the standard library.
    cache = directory.parent / "mypy-cache"
    found = output("mypy", "--strict", "--cache-dir", str(cache), str(file), cwd=directory)
    assert "Success" in found or "errors in 1 file" in found or "error in 1 file" in found, found
    lines = re.findall(rf"{re.escape(file.name)}:(\d+): error: (.*)", found)
    return {int(number): message for number, message in lines}


def pyright(file: Path, directory: Path) -> dict[int, str]:
    """Return the errors of pyright, by line."""
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(PACKAGE)],
        "include": [file.name],
        "pythonVersion": "3.11",
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    if file.parent != directory:
        # pyright reads only files below its configuration.
        shutil.copy(file, directory)
    report = json.loads(output("pyright", "--outputjson", "-p", str(directory), cwd=directory))
    assert report["summary"]["filesAnalyzed"] == 1
    return {
        one["range"]["start"]["line"] + 1: one["message"]
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    }


@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_documented_use_is_accepted(check: Check, tmp_path: Path) -> None:
    assert check(DOCUMENTED, tmp_path) == {}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_snippets_are_accepted(check: Check, page: str, tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (PROJECT.parent / page).read_text(), re.DOTALL)
    assert snippets
    lines = "\n".join(snippets).splitlines()
    # The snippets of a page are joined into one program. Keep only the first of several equal imports.
    once = [
        line
        for number, line in enumerate(lines)
        if not line.startswith(("import ", "from ")) or line not in lines[:number]
    ]
    file = tmp_path / "snippets.py"
    file.write_text("\n".join(once))
    assert check(file, tmp_path) == {}


@pytest.mark.parametrize("check", [mypy, pyright])
def test_documented_misuses_are_refused(check: Check, tmp_path: Path) -> None:
    lines = MISUSES.read_text().splitlines()
    wrong = {number: line.strip() for number, line in enumerate(lines, 1) if "  # " in line}
    assert len(wrong) > 15
    found = check(MISUSES, tmp_path)
    assert {number: lines[number - 1].strip() for number in found} == wrong, found


def test_every_public_type_is_known() -> None:
    done = output("pyright", "--verifytypes", "zklock", "--ignoreexternal", "--outputjson", cwd=PACKAGE)
    completeness = json.loads(done)["typeCompleteness"]
    assert completeness["completenessScore"] == 1
    assert {one["name"] for one in completeness["modules"]} > {
        "zklock",
        "zklock.aio",
        "zklock.compat.kazoo",
        "zklock.testing",
    }
