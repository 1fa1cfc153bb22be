"""The demo needs only Python, Node and Rust, and fails if the lock breaks a promise."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from demo.__main__ import PATH, run_demo
from demo.roles import PROGRAMS, Role, demo_roles, without_curator
from harness.built import require
from harness.paths import PYTHON, TESTS

HONEST = Role("honest", (PYTHON, str(PROGRAMS / "job.py")))

# A process that claims to hold the lock without asking for it.
THIEF = """
import sys, time
say = lambda *words: print(time.monotonic_ns(), *words, flush=True)
say("waits")
say("holds", sys.argv[1] + "/_c_x-lock-0000000000", 1)
time.sleep(5)
say("releases")
"""

# A process that leaves its node behind, because its session outlives the demo.
LITTERER = """
import os, sys, time, zklock
say = lambda *words: print(time.monotonic_ns(), *words, flush=True)
client = zklock.Client(session_timeout=60)
say("waits")
lease = zklock.Mutex(client, sys.argv[1]).__enter__()
say("holds", lease.node, lease.fencing_token)
say("releases")
os._exit(0)
"""

CRASHES = "import sys; sys.exit('no lock today')"


@pytest.fixture(autouse=True)
def _built() -> None:
    for part in ("python", "node", "stage"):
        require(part)


def shown(roles: list[Role], directory: Path, rounds: int = 1) -> tuple[int, str]:
    """Return the exit status and the output of a demo run."""
    output = io.StringIO()
    console = Console(file=output, width=200)
    return run_demo(roles, rounds, console, directory, directory / "demo.svg"), output.getvalue()


def program(title: str, source: str) -> Role:
    return Role(title, (PYTHON, "-c", source))


def test_the_demo_runs_without_java(tmp_path: Path) -> None:
    node = os.environ.get("ZKLOCK_NODE", "node")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to(subprocess.check_output(["which", node], text=True).strip())
    done = subprocess.run(
        # Three of the five rounds are suitable for the kill, so a slow machine can miss one.
        [PYTHON, "-m", "demo", "--rounds", "5", "--picture", str(tmp_path / "demo.svg")],
        cwd=TESTS,
        env={**os.environ, "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("5 processes contend for one lock, on an in-memory server")
    assert "With a JDK and Maven, a Java process on Apache Curator would join in." in lines
    assert sum("Python, killed is killed with SIGKILL" in " ".join(line.split()) for line in lines) == 1
    assert re.search(r"\b2[345] holds; 0 overlaps; ", done.stdout)
    assert (tmp_path / "demo.svg").read_text().startswith("<svg")


def test_an_overlap_fails_the_demo(tmp_path: Path) -> None:
    status, output = shown([HONEST, program("thief", THIEF)], tmp_path)
    assert status == 1
    assert f"overlap on {PATH}: " in output
    assert "; 1 overlap; " in output


def test_a_leftover_node_fails_the_demo(tmp_path: Path) -> None:
    status, output = shown([program("litterer", LITTERER)], tmp_path)
    assert status == 1
    assert f"a node is left: {PATH}/_c_" in output


def test_a_failed_or_never_granted_process_fails_the_demo(tmp_path: Path) -> None:
    status, output = shown([HONEST, program("crashes", CRASHES)], tmp_path)
    assert status == 1
    assert "crashes ended with status 1:\nno lock today" in output
    assert "crashes was never granted the lock" in output


def test_a_victim_that_is_not_killed_fails_the_demo(tmp_path: Path) -> None:
    # The victim could only be killed in its third round, which this run does not reach.
    status, output = shown([Role("victim", HONEST.command, victim=True)], tmp_path, rounds=2)
    assert status == 1
    assert "victim was too quick to be killed" in output


def test_a_missing_jdk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "With a JDK and Maven" in (without_curator() or "")
    assert [role.title for role in demo_roles(tmp_path)] == [
        "Python",
        "asyncio",
        "Node",
        "Rust",
        "Python, killed",
    ]
