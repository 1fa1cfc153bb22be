"""Writes the tables of options and properties into the documents, from docs/api.toml.

A document marks the place with `<!-- table: options Mutex Semaphore -->` or `<!-- table: properties Lease
-->`, and with `<!-- end of table -->` after it. With --check, the program fails if a table is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from api import ROOT, TABLE, Table, entries, read

DOCUMENTS = {
    "docs/api.md": "python",
    "bindings-python/README.md": "python",
    "bindings-node/README.md": "node",
}
"""The documents, each with the language of the names and units in its tables."""

_PLACE = re.compile(r"(<!-- table: (options|properties) ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def default(entry: Table, language: str) -> str:
    """Return the default of an option in its language's notation, or an empty string."""
    value = entry.get("default", -1)
    if isinstance(value, bool):
        return f"`{value if language == 'python' else str(value).lower()}`"
    if entry.get("unit") == "time" and language == "node":
        value = round(value * 1000)
    return "" if value < 0 else f"{value:,}".replace(",", " ")


def rows(table: Table, kind: str, sections: Sequence[str], language: str) -> list[str]:
    """Return the rows of the members that have a text. An option that not all records have names those that
    have it.
    """
    found: dict[str, tuple[Table, list[str]]] = {}
    for section in sections:
        place = table["options"] if kind == "options" else table
        for name, entry in entries(place[section], table, language).items():
            found.setdefault(name, (entry, []))[1].append(section)
    made = []
    for name, (entry, owners) in found.items():
        only = "" if len(owners) == len(sections) else f" (`{'`, `'.join(owners)}`)"
        value = f" {default(entry, language)} |" if kind == "options" else ""
        if "says" in entry:
            made.append(f"| `{name}` |{value.replace('  ', ' ')} {entry['says']}{only} |")
    return made


def written(text: str, table: Table, language: str) -> str:
    """Return a document with its tables."""

    def made(place: re.Match[str]) -> str:
        header = "| Option | Default | Meaning |\n|---|---|---|"
        if place[2] == "properties":
            header = "| Property | Meaning |\n|---|---|"
        lines = rows(table, place[2], place[3].split(), language)
        return "\n".join([place[1], header, *lines, "", place[4]])

    return _PLACE.sub(made, text)


def problems(root: Path) -> list[str]:
    """Return the documents with outdated tables."""
    pages = {name: ((root / name).read_text(), language) for name, language in DOCUMENTS.items()}
    return [
        f"{name}: its tables are not those of {TABLE}; run `make tables`"
        for name, (text, language) in pages.items()
        if not _PLACE.search(text) or written(text, read(root), language) != text
    ]


if __name__ == "__main__":
    if wrong := problems(ROOT) if "--check" in sys.argv[1:] else []:
        sys.exit("\n".join(wrong))
    for name, language in DOCUMENTS.items():
        (ROOT / name).write_text(written((ROOT / name).read_text(), read(ROOT), language))
