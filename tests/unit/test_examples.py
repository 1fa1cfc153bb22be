"""Every example works, and fails if the protection that it demonstrates is removed."""

from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from harness.paths import NODE, PYTHON, REPOSITORY
from harness.processes import reap, spawn
from harness.server import Standalone

EXAMPLES = REPOSITORY / "examples"
INTERPRETERS = {".py": PYTHON, ".mjs": NODE}


def programs() -> list[Path]:
    """Return all examples except the Rust ones, which tests/consumers/rust runs as a crate."""
    found = (path for path in EXAMPLES.glob("[!.]*/*") if path.is_file())
    return sorted(path for path in found if path.parent.name != "rust")


@pytest.mark.parametrize("example", programs(), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_example(example: Path, server: Standalone, node_project: Path) -> None:
    program = str(shutil.copy(example, node_project))

    def start(chroot: str, *options: str) -> Popen[bytes]:
        # The examples run at the same time, so each run has its own chroot.
        environment = {"ZKLOCK_HOSTS": f"{server.hosts}/{example.stem}-{chroot}"}
        return spawn([INTERPRETERS[example.suffix], program, *options], env=environment, stdout=PIPE)

    guarded, unguarded = start("guarded"), start("unguarded", "--unguarded")
    try:
        kept, _ = guarded.communicate(timeout=30)
        lost, _ = unguarded.communicate(timeout=30)
    finally:
        statuses = [reap(process) for process in (guarded, unguarded)]
    assert statuses == [0, 1]
    assert "the new report remains" in kept.decode()
    assert "the old report remains" in lost.decode()


def test_every_language_has_an_example() -> None:
    assert {program.suffix for program in programs()} == set(INTERPRETERS)
