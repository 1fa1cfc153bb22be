"""The programs of the tutorial and the how-tos run and print the output shown on the pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import NODE, REPOSITORY
from harness.programs import Program, nameless, programs
from harness.server import Standalone

PAGES = [
    *(
        REPOSITORY / "docs" / name
        for name in (
            "tutorial.md",
            "from-advisory-locks.md",
            "from-curator.md",
            "from-filelock.md",
            "from-redis.md",
            "from-shedlock.md",
        )
    ),
    *sorted((REPOSITORY / "docs" / "howto").glob("*.md")),
]
PROGRAMS = [program for page in PAGES for program in programs(page)]
TESTS = ("test_", ".test.")
# Programs that print nothing when they run alone (e.g. because a framework loads them), and their tests.
RUN_BY = {
    "app.py": "unit/test_programs.py",
    "encrypted.mjs": "unit/test_howto_security.py",
    "encrypted.py": "unit/test_howto_security.py",
    "worker.py": "unit/test_howto_kubernetes.py",
    "reports/locks.py": "unit/test_howto_django.py",
    "reports/management/commands/monthly.py": "unit/test_howto_django.py",
    "reports/management/commands/nightly.py": "unit/test_howto_django.py",
    "reports/views.py": "unit/test_howto_django.py",
    "reports/tests.py": "unit/test_howto_django.py",
    "urls.py": "unit/test_howto_django.py",
    "invoices.mjs": "consumers/node/test_bullmq.py",
    "server.mjs": "unit/test_howto_node.py",
    "express.mjs": "consumers/node/test_servers.py",
    "nightly.ts": "consumers/node/test_servers.py",
    "ticks.mjs": "consumers/node/test_servers.py",
}


def command(program: Program, file: Path) -> list[str]:
    """Return the command with which a user starts the program."""
    if program.name.endswith(".py"):
        # Load the plugin with `-p`, because it is not installed here. If it is installed, pytest finds it
        # without the option.
        pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "zklock_pytest")
        return [sys.executable, *(pytest_ if program.name.startswith("test_") else ()), str(file)]
    return [NODE, *(("--test",) if ".test." in program.name else ()), str(file)]


def run(program: Program, hosts: str, directory: Path) -> str:
    """Run a program of a page and return its output."""
    file = directory / program.name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(program.for_server(hosts))
    done = subprocess.run(
        command(program, file),
        cwd=directory,
        env={**os.environ, "ZKLOCK_HOSTS": hosts},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def label(program: Program) -> str:
    """Return the test ID of a program."""
    return f"{program.page.stem}-{program.name}"


def alike(text: str) -> str:
    """Return the text without the parts that differ between languages or between runs."""
    return re.sub(r"\d+n?", "N", text).replace("True", "true").replace("False", "false")


@pytest.mark.parametrize(
    "program",
    [one for one in PROGRAMS if one.printed is not None],
    ids=label,
)
def test_a_program_prints_the_same(program: Program, server: Standalone, node_project: Path) -> None:
    # Each program has its own chroot, so its nodes affect no other program.
    hosts = f"{server.hosts}/{program.page.stem}-{program.name.replace('.', '-')}"
    assert program.printed is not None
    assert alike(run(program, hosts, node_project)) == alike(program.printed)


@pytest.mark.parametrize(
    "program",
    [one for one in PROGRAMS if any(mark in one.name for mark in TESTS)],
    ids=label,
)
def test_a_test_passes(program: Program, server: Standalone, node_project: Path) -> None:
    """A test that a page shows passes next to the other files of the page."""
    for other in programs(program.page):
        (node_project / other.name).write_text(other.for_server(server.hosts))
    out = run(program, server.hosts, node_project)
    assert re.search(r"\b1 passed|^# pass 1$", out, re.MULTILINE), out


def test_every_program_is_run_by_a_test() -> None:
    tests = {program.name for program in PROGRAMS if any(mark in program.name for mark in TESTS)}
    unclaimed = [
        f"{program.page.name}: {program.name}"
        for program in PROGRAMS
        if program.printed is None and program.name not in tests | RUN_BY.keys()
    ]
    assert unclaimed == []
    for name, test in RUN_BY.items():
        assert name in (REPOSITORY / "tests" / test).read_text(), f"{test} does not run {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_program_has_a_name(page: Path) -> None:
    assert nameless(page) == []
