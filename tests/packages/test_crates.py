"""Builds a program outside the workspace with the packaged crates (`cargo package`) and the oldest Rust."""

from __future__ import annotations

import re

import pytest

from harness import crates, installed
from harness.installed import dev, run
from harness.paths import REPOSITORY, TESTS

MINIMAL = TESTS / "consumers" / "rust" / "minimal"


def lines_to_patch(text: str) -> list[str]:
    """Return the names of the crates in the `[patch.crates-io]` table of a text."""
    (table,) = re.findall(r"^\[patch\.crates-io\]\n((?:[\w-]+ = .*\n)+)", text, re.MULTILINE)
    return [line.split()[0] for line in table.splitlines()]


@pytest.mark.timeout(900)
def test_s595_the_patch_selects_our_transport() -> None:
    # The program's manifest already contains a patch for our transport, so the options replace only `zklock`.
    # tests/consumers/rust tests programs without this patch.
    program = crates.build(MINIMAL / "Cargo.toml", *crates.in_place_of_the_registry(["zklock"]))
    with dev(installed.command()) as hosts:
        assert run(program, cwd=MINIMAL, env={"ZKLOCK_HOSTS": hosts}) == "zklock\n"


def test_s595_the_page_shows_these_lines() -> None:
    page = (REPOSITORY / "docs" / "rust.md").read_text()
    shown = page.partition("## From a registry")[2].partition("\n## ")[0]
    assert lines_to_patch(shown) == lines_to_patch((MINIMAL / "Cargo.toml").read_text())
