"""Writes the tables of options and properties into the documents, from docs/api.toml.

    python3 tools/tables.py [--check]

A document marks the place with `<!-- table: options Mutex Semaphore -->` or `<!-- table: properties Lease
-->`, and with `<!-- end of table -->` after it. With --check, the program fails if a table is out of date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from api import ABOUT_A_TYPE, TABLE, Comparison, Table

ROOT = Path(__file__).resolve().parent.parent

DOCUMENTS = {
    "docs/api.md": "python",
    "bindings-python/README.md": "python",
    "bindings-node/README.md": "node",
}
"""The documents, each with the language of the names and units in its tables."""

_PLACE = re.compile(r"(<!-- table: (options|properties) ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Row = Sequence[str]


def default(entry: Table, language: str) -> str:
    """Return the default of an option in its language's notation, or an empty string."""
    value = entry.get("default")
    if value is None or value == -1:
        return ""
    if isinstance(value, bool):
        return f"`{value}`" if language == "python" else f"`{str(value).lower()}`"
    if entry.get("unit") == "time" and language == "node":
        value = round(value * 1000)
    return f"{value:,}".replace(",", " ")


def members(table: Table, names: list[str], language: str) -> Iterator[tuple[str, Table, list[str]]]:
    """Yield the members of some sections in this language: the name, the entry, and the sections that have
    it.
    """
    here = Comparison(language, ({}, set()), table)
    found: dict[str, tuple[Table, list[str]]] = {}
    for section in names:
        for key, entry in table[section].items():
            one = {"is": entry} if isinstance(entry, str) else entry
            if key in ABOUT_A_TYPE or "absent" in here.deviation(one):
                continue
            _, sections = found.setdefault(key, (one, []))
            sections.append(section)
    for key, (entry, sections) in found.items():
        if "says" in entry:
            yield here.name(key, entry), entry, sections


def rendered(header: Row, rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (header, *rows)]
    lines.insert(1, "|" + "---|" * len(header))
    return "\n" + "\n".join(lines) + "\n\n"


def options(table: Table, names: list[str], language: str) -> str:
    """Return the options of some records. An option that not all records have names those that have it."""
    rows = []
    for name, entry, sections in members(table["options"], names, language):
        only = "" if len(sections) == len(names) else f" (`{'`, `'.join(sections)}`)"
        rows.append((f"`{name}`", default(entry, language), entry["says"] + only))
    return rendered(("Option", "Default", "Meaning"), rows)


def properties(table: Table, names: list[str], language: str) -> str:
    """Return the properties of some types."""
    rows = [(f"`{name}`", entry["says"]) for name, entry, _ in members(table, names, language)]
    return rendered(("Property", "Meaning"), rows)


def written(text: str, table: Table, language: str) -> str:
    """Return a document with its tables."""

    def made(place: re.Match[str]) -> str:
        make = options if place[2] == "options" else properties
        return place[1] + make(table, place[3].split(), language) + place[4]

    return _PLACE.sub(made, text)


def problems(root: Path) -> list[str]:
    """Return the documents with outdated tables."""
    table = tomllib.loads((root / TABLE).read_text())
    wrong = []
    for name, language in DOCUMENTS.items():
        text = (root / name).read_text()
        if not _PLACE.search(text):
            wrong.append(f"{name}: has no place for a table")
        elif written(text, table, language) != text:
            wrong.append(f"{name}: its tables are not those of {TABLE}; run `make tables`")
    return wrong


def main() -> int:
    """Write the tables, or check them."""
    if "--check" in sys.argv[1:]:
        wrong = problems(ROOT)
        print("\n".join(wrong) or "all as written")
        return 1 if wrong else 0
    table = tomllib.loads((ROOT / TABLE).read_text())
    for name, language in DOCUMENTS.items():
        page = ROOT / name
        page.write_text(written(page.read_text(), table, language))
    return 0


if __name__ == "__main__":
    sys.exit(main())
