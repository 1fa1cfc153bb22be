"""Tests of the generated tables of options and properties."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import api

TABLE = tomllib.loads("""
[Lease]
node = { is = "property", says = "The node" }
fencing_token = { is = "property", says = "A number" }
check = "method"
owner = { is = "property", says = "Whose it is", node = { absent = "scopes" } }

[options.Mutex]
reentrant = { default = true, says = "Whether an owner may enter again" }
max_hold = { unit = "time", default = 1.5, says = "For how long" }

[options.Semaphore]
max_hold = { unit = "time", default = 1.5 }
max_size = { default = 16777216, says = "How large" }
""")


def place(what: str) -> str:
    """Return a document with a placeholder for this table."""
    return f"before\n<!-- table: {what} -->\nstale\n<!-- end of table -->\nbehind\n"


def test_an_option_has_the_name_the_default_and_the_unit_of_its_language() -> None:
    document = place("options Mutex Semaphore")
    python = api.written(document, TABLE, "python")
    assert "| `reentrant` | `True` | Whether an owner may enter again (`Mutex`) |" in python
    assert "| `max_hold` | 1.5 | For how long |" in python, "both kinds have the option"
    assert "| `max_size` | 16 777 216 | How large (`Semaphore`) |" in python
    node = api.written(document, TABLE, "node")
    assert "| `reentrant` | `true` |" in node
    assert "| `maxHold` | 1 500 |" in node
    assert python.startswith("before\n")
    assert python.endswith("behind\n")
    assert "stale" not in python


def test_a_property_that_a_language_does_not_have_has_no_row() -> None:
    document = place("properties Lease")
    assert "`owner`" in api.written(document, TABLE, "python")
    node = api.written(document, TABLE, "node")
    assert "| `fencingToken` | A number |" in node
    assert "owner" not in node
    assert "check" not in node


def test_a_table_changed_by_hand_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "WITH_TABLES", {"page.md": "python", "bare.md": "python"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "api.toml").write_text('[Lease]\nnode = { is = "property", says = "The node" }\n')
    table = tomllib.loads((tmp_path / "docs" / "api.toml").read_text())
    page = api.written(place("properties Lease"), table, "python")
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "bare.md").write_text("no table\n")
    told = "its tables are not those of docs/api.toml; run `make tables`"
    assert api.outdated(tmp_path, table) == [f"bare.md: {told}"]
    (tmp_path / "page.md").write_text(page.replace("The node", "A node"))
    assert api.outdated(tmp_path, table) == [f"page.md: {told}", f"bare.md: {told}"]
