"""The functions, tests and planted bugs that docs/protocol.md and docs/track-record.md refer to exist.

A reference has the form `path/from/the/top.rs::function`, with types and modules in between if needed. A Node
test has the form `path.test.mjs::title`.
"""

from __future__ import annotations

import re

import pytest

from harness.paths import REPOSITORY

PROTOCOL = (REPOSITORY / "docs/protocol.md").read_text()
RECORD = (REPOSITORY / "docs/track-record.md").read_text()
REFERENCE = re.compile(r"`([\w./-]+\.(?:rs|py|ts|mjs))::([^`]+)`")


def dead(text: str) -> list[str]:
    """Return the references that lead nowhere."""
    found = []
    for reference in REFERENCE.finditer(text):
        file, name = REPOSITORY / reference[1], re.escape(reference[2].rpartition("::")[2])
        definition = rf"(['\"`]){name}\1" if file.suffix == ".mjs" else rf"\b(?:fn|def|function)\s+{name}\b"
        if not file.is_file() or not re.search(definition, file.read_text()):
            found.append(reference[0])
    return found


def without(texts: list[str]) -> list[str]:
    """Return the texts without a reference."""
    return [text for text in texts if not REFERENCE.search(text)]


def test_every_reference_leads_somewhere() -> None:
    assert dead(PROTOCOL) == []
    assert dead(RECORD) == []


@pytest.mark.parametrize(
    "reference",
    [
        "`core/src/gone.rs::prefix`",
        "`core/src/queue/node_name.rs::gone`",
        "`core/src/queue/node_name.rs::NodeName::gone`",
        "`bindings-node/test/run.mjs::no such title`",
    ],
)
def test_a_dead_reference_is_found(reference: str) -> None:
    assert dead(f"`core/src/queue/node_name.rs::prefix`, {reference}") == [reference]


def test_every_rule_names_a_function() -> None:
    rules = re.split(r"^\*\*(?=\d+\. )", PROTOCOL, flags=re.MULTILINE)[1:]
    assert len(rules) > 10
    assert without(rules) == []
    assert without(["1. Names.** `core/view.rs`"])


def test_every_bug_has_a_test_and_its_planted_bug_exists() -> None:
    tables = re.findall(r"^\| Bug .*\n\|---.*\n((?:\|.*\n)+)", RECORD, re.MULTILINE)
    bugs = "".join(tables).splitlines()
    assert len(bugs) > 20
    assert without(bugs) == []
    planted = re.findall(r"`([a-z]+(?:-[a-z0-9]+){2,})`", "\n".join(bugs))
    assert planted
    assert [name for name in planted if not (REPOSITORY / f"tests/mutants/{name}.patch").is_file()] == []
