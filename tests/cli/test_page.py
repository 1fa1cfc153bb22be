"""Runs the examples of docs/cli.md and of the page about cron jobs in a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.paths import COMMAND, REPOSITORY
from harness.server import Standalone

PAGES = [REPOSITORY / "docs" / "cli.md", REPOSITORY / "docs" / "howto" / "cron.md"]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions() -> list[list[tuple[str, str]]]:
    """Return the blocks of the pages, each a list of examples: a command and the output shown for it."""
    found = []
    for block in BLOCK.findall("\n".join(page.read_text() for page in PAGES)):
        parts = [example.partition("\n") for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
        found.append([(typed, shown) for typed, _, shown in parts])
    return found


def matches(shown: str, printed: str) -> bool:
    """Return whether the text that a command printed matches the output that a page shows.

    A `…` in `shown` matches any text.
    """
    pattern = ".*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def test_s549_there_are_examples() -> None:
    assert sum(len(block) for block in sessions()) >= 10
    assert not matches("a …\n", "b c\n")


@pytest.mark.parametrize("block", sessions(), ids=range(len(sessions())))
def test_s549_the_examples_of_a_block(
    server: Standalone, tmp_path: Path, block: list[tuple[str, str]]
) -> None:
    (tmp_path / "zklock").symlink_to(COMMAND)
    environment = {
        **os.environ,
        "ZKLOCK_HOSTS": server.hosts,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    }
    bash = [shutil.which("bash") or "sh", "-c"]
    # The examples assume that the lock was used before.
    subprocess.run([COMMAND, "run", "/locks/nightly", "--", "true"], env=environment, timeout=60, check=True)
    for command, shown in block:
        # 2.5 seconds are enough to connect on a busy machine. Before the command has connected, it cannot
        # know that the lock is taken.
        typed = command.replace(" -w 0.2 ", " -w 2.5 ")
        ran = subprocess.run([*bash, typed], env=environment, capture_output=True, text=True, timeout=60)
        assert matches(shown, ran.stdout), f"{typed}\n{ran.stdout}{ran.stderr}"
