"""The check finds public names without documentation, and documents state the numbers of the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import zklock

import api
import documented
from harness.nemesis.workload import HANG
from harness.paths import REPOSITORY

READ = (
    "docs",
    "core/src/error/mod.rs",
    "README.md",
    "bindings-python/README.md",
    "bindings-node/README.md",
    *documented.NODE_ENTRIES,
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the files that the check reads."""
    for path in READ:
        source, target = REPOSITORY / path, tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return tmp_path


def test_every_public_name_stands_in_a_document() -> None:
    assert documented.problems(REPOSITORY) == []


def test_a_member_without_a_word_is_found(copy: Path) -> None:
    table = copy / api.TABLE
    table.write_text(table.read_text().replace("[Lease]\n", '[Lease]\nundocumented = "property"\n'))
    (found,) = documented.problems(copy)
    assert found.startswith("undocumented (")


def test_an_error_without_a_word_is_found(copy: Path) -> None:
    source = copy / "core/src/error/mod.rs"
    code = 'Self::LockLost => "LOCK_LOST"'
    assert code in source.read_text()
    source.write_text(source.read_text().replace(code, code + ',\nSelf::Unheard => "UNHEARD"'))
    assert [one.split()[0] for one in documented.problems(copy)] == ["UNHEARD", "Unheard", "UnheardError"]


def test_only_code_counts(copy: Path) -> None:
    page = copy / "docs/api.md"
    page.write_text(page.read_text().replace("`into_arcs`", "into_arcs"))
    (found,) = documented.problems(copy)
    assert found.startswith("into_arcs (")


def test_the_pages_of_the_packages_have_every_name() -> None:
    assert documented.unpublished(REPOSITORY) == []


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("bindings-node/README.md", "sessionTimeout"),
        ("bindings-node/README.md", "ReadyOptions"),
        ("bindings-node/README.md", "lossReason"),
        ("bindings-python/README.md", "parent_acl"),
        ("bindings-python/README.md", "NOT_HELD"),
    ],
)
def test_a_name_that_a_package_does_not_show_is_found(copy: Path, page: str, name: str) -> None:
    file = copy / page
    file.write_text(file.read_text().replace(name, "elsewhere"))
    assert documented.unpublished(copy) == [f"{name} is not in {page}"]


def test_what_a_hang_is() -> None:
    page = " ".join((REPOSITORY / "docs/safety.md").read_text().split())
    text = "every lock was granted again, and every process was granted one, within"
    assert f"*0 hangs* means that after each fault {text} {HANG:.0f} s" in page


def test_the_page_lists_every_kind_of_request() -> None:
    page = (REPOSITORY / "docs" / "observability.md").read_text()
    (table,) = re.findall(r"^\| Kind of request \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    kinds = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]*\|", table, re.MULTILINE)))
    # This client never connects.
    counted = zklock.Client("127.0.0.1:1", connect=False).stats().requests
    assert sorted(kinds) == sorted(counted)


def test_the_page_states_the_glibc_of_the_wheels_of_a_release() -> None:
    (stated,) = re.findall(r"glibc (\S+) or later or", (REPOSITORY / "docs" / "packages.md").read_text())
    workflow = (REPOSITORY / ".github" / "workflows" / "release.yml").read_text()
    built = set(re.findall(r"-linux-gnu, libc: '(\w+)'|manylinux: '(\w+)'", workflow))
    assert {one or other for one, other in built} == {stated.replace(".", "_")}
