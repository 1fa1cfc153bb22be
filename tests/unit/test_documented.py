"""Documents state the numbers of the code."""

from __future__ import annotations

import re

import zklock

from harness.nemesis.workload import HANG
from harness.paths import REPOSITORY


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
