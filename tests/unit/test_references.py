"""References from rules to code, and from recorded bugs to their tests, lead to existing targets."""

from __future__ import annotations

from pathlib import Path

from references import problems

RULES = "**1. Names.** `core/view.rs::blockers`.\n"


def wrong(root: Path, text: str, record: str = "") -> list[str]:
    (root / "docs").mkdir()
    (root / "docs" / "protocol.md").write_text(text)
    (root / "docs" / "track-record.md").write_text(record)
    (root / "core").mkdir()
    (root / "core" / "view.rs").write_text("impl View {\n    pub(crate) fn blockers(&self) {}\n}\n")
    return problems(root)


def test_existing_targets_are_accepted(tmp_path: Path) -> None:
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


def bugs(*rows: str) -> str:
    return "\n".join(["| Bug | Test |", "|---|---|", *(f"| {row} |" for row in rows)]) + "\n"


def test_a_bug_has_a_test_that_exists(tmp_path: Path) -> None:
    node = tmp_path / "lease.test.mjs"
    node.write_text("scenario('a lease is told', () => {});\n")
    patch = tmp_path / "tests" / "mutants" / "a-lease-is-told.patch"
    patch.parent.mkdir(parents=True)
    patch.touch()
    rows = ["a | `core/view.rs::blockers`, `a-lease-is-told`", "b | `lease.test.mjs::a lease is told`"]
    assert wrong(tmp_path, RULES, bugs(*rows)) == []


def test_a_bug_without_a_test_is_named(tmp_path: Path) -> None:
    rows = ["a | `core/view.rs::blocker`", "b | by hand", "c | `core/view.rs::blockers` `a-bug-that-is-gone`"]
    (tmp_path / "lease.test.mjs").touch()
    assert wrong(tmp_path, RULES, bugs(*rows, "d | `lease.test.mjs::a lease is told`")) == [
        "docs/track-record.md:3: core/view.rs defines no function `blocker`",
        "docs/track-record.md:6: lease.test.mjs has no test 'a lease is told'",
        "docs/track-record.md:4: the bug has no test",
        "docs/track-record.md:5: there is no planted bug a-bug-that-is-gone",
    ]
