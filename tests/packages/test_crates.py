"""The crates as `cargo package` makes them, in a program outside the workspace, on the oldest Rust."""

from __future__ import annotations

import re
import shutil

import pytest

import crates
import msrv
from harness.installed import dev, run
from harness.paths import COMMAND, REPOSITORY, TESTS

MINIMAL = TESTS / "consumers" / "rust" / "minimal"
OURS = ["zklock", "zklock-transport"]


@pytest.fixture(scope="module")
def toolchain() -> dict[str, str] | None:
    """The environment in which cargo is the oldest that the crates allow."""
    return msrv.toolchain()


def lines_to_patch(text: str) -> list[str]:
    """The names that a manifest, or a page that shows one, patches."""
    (table,) = re.findall(r"^\[patch\.crates-io\]\n((?:[\w-]+ = .*\n)+)", text, re.MULTILINE)
    return [line.split()[0] for line in table.splitlines()]


@pytest.mark.timeout(900)
def test_s595_with_the_patch_it_is_our_transport(toolchain: dict[str, str] | None) -> None:
    # The patch has the transport, too.
    program = msrv.build(MINIMAL / "Cargo.toml", *crates.in_place_of_the_registry(["zklock"]), env=toolchain)
    with dev(COMMAND) as hosts:
        assert run(program, cwd=MINIMAL, env={"ZKLOCK_HOSTS": hosts}) == "zklock\n"


@pytest.mark.timeout(900)
def test_s595_without_it_is_the_stock_one(toolchain: dict[str, str] | None) -> None:
    # Where it finds the same settings of cargo, and so uses what is compiled for the other one.
    copied = REPOSITORY / ".make" / "unpatched" / "minimal"
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(MINIMAL / "src", copied / "src")
    manifest = (MINIMAL / "Cargo.toml").read_text()
    patch = re.search(r"^\[patch.*?\n\n", manifest, re.MULTILINE | re.DOTALL)
    assert patch is not None
    (copied / "Cargo.toml").write_text(manifest.replace(patch[0], ""))
    shutil.copy2(MINIMAL / "Cargo.unpatched.lock", copied / "Cargo.lock")
    program = msrv.build(copied / "Cargo.toml", *crates.in_place_of_the_registry(OURS), env=toolchain)
    with dev(COMMAND) as hosts:
        assert run(program, cwd=copied, env={"ZKLOCK_HOSTS": hosts}) == "stock\n"


def test_s595_the_page_shows_these_lines() -> None:
    page = (REPOSITORY / "docs" / "rust.md").read_text()
    shown = page.partition("## From a registry")[2].partition("\n## ")[0]
    assert lines_to_patch(shown) == lines_to_patch((MINIMAL / "Cargo.toml").read_text())
