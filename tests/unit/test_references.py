"""A reference from the protocol's rules to the code that carries them out must lead somewhere."""

from __future__ import annotations

from pathlib import Path

from references import problems


def wrong(root: Path, text: str) -> list[str]:
    (root / "docs").mkdir()
    (root / "docs" / "protocol.md").write_text(text)
    (root / "core").mkdir()
    (root / "core" / "view.rs").write_text("impl View {\n    pub(crate) fn blockers(&self) {}\n}\n")
    return problems(root)


def test_what_exists_is_right(tmp_path: Path) -> None:
    assert wrong(tmp_path, "**1. Names.** `core/view.rs::blockers`, `core/view.rs::View::blockers`.\n") == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert wrong(tmp_path, "**1. Names.** A\n`core/gone.rs::blockers`.\n") == [
        "docs/protocol.md:2: there is no file core/gone.rs"
    ]


def test_a_missing_function_is_named(tmp_path: Path) -> None:
    (problem,) = wrong(tmp_path, "**1. Names.** `core/view.rs::blocker`.\n")
    assert problem == "docs/protocol.md:1: core/view.rs defines no function `blocker`"


def test_a_rule_without_a_reference_is_named(tmp_path: Path) -> None:
    text = "**1. Names.** `core/view.rs::blockers`.\n\n**2. Order.** By number.\n"
    assert wrong(tmp_path, text) == ["docs/protocol.md: rule 2 names no `file.rs::function`"]
