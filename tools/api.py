"""Compares the public API of each language with docs/api.toml and fails if they differ
in either direction.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surfaces import node, python, rust
from surfaces.model import Member, Types, flattened

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("docs/api.toml")

Surface = tuple[Types, set[str]]
Table = dict[str, Any]

WORD_END = r"\b"
# A reference to another member, whose own text is checked separately.
_REFERENCE = re.compile(r"(?:those of|see|as|of) `(?:zklock\.\w|acquire)", re.IGNORECASE)

ABOUT_A_TYPE = {"absent", "names", "extends", "in"}


def surfaces(root: Path) -> dict[str, Surface]:
    """Return the public API of each language."""
    return {
        "rust": rust.types(root),
        "python": python.blocking(root),
        "aio": python.asynchronous(root),
        "node": node.types(root),
    }


def camel(name: str) -> str:
    """Convert a name to Node's camel case."""
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name)


def unit_problem(language: str, unit: str, member: Member, doc: str) -> str | None:
    """Return why a member does not have its unit, or None."""
    text = f"{member.doc} {doc}"
    wanted: dict[tuple[str, str], tuple[str, str]] = {
        ("time", "rust"): ("Duration", ""),
        ("time", "python"): ("float", r"\bseconds\b"),
        ("time", "node"): ("number", r"\bms\b"),
        ("instant", "rust"): ("u64", r"\bmilliseconds since 1970\b"),
        ("instant", "python"): ("float", r"\bseconds since 1970\b"),
        ("instant", "node"): ("Date", ""),
        ("int64", "rust"): ("i64", ""),
        ("int64", "python"): ("int", ""),
        ("int64", "node"): ("bigint", ""),
    }
    type_, said = wanted[unit, "python" if language == "aio" else language]
    types = [member.type, *(parameter.type for parameter in member.parameters.values())]
    if not any(re.search(rf"\b{type_}\b", one) for one in types):
        return f"is a {member.type or 'nothing'}, not a {type_}"
    if said and not re.search(said, text) and not _REFERENCE.search(text):
        return f"does not say its unit ({said.replace(WORD_END, '')})"
    return None


def default_problem(language: str, entry: Table, member: Member) -> str | None:
    """Return why a default differs from the table's, or None."""
    wanted = entry["default"]
    if language in {"python", "aio"}:
        given = None if member.default is None else eval(member.default, {})
        return None if given == wanted else f"has the default {member.default}, not {wanted}"
    if language == "node" and wanted != -1:
        said = str(wanted * 1000 if entry.get("unit") == "time" else wanted).lower()
        if f"default: {said}" not in re.sub(r"(?<=\d)[ \u202f](?=\d)", "", member.doc).lower():
            return f"does not document `Default: {said}`"
    return None


def kind_problem(language: str, kind: str, member: Member) -> str | None:
    """Return why a member is not of its kind, or None."""
    if language == "rust":
        # In Rust, everything is a method if it can fail or takes a lock.
        wrong = "property" not in kind and member.is_property
    else:
        wrong = member.is_property != ("property" in kind)
    if wrong:
        return f"is a {'property' if member.is_property else 'method'}, not a {kind}"
    if language == "python":
        return "is a coroutine" if member.is_async else None
    if member.is_async != ("async" in kind):
        return f"{'may' if member.is_async else 'cannot'} be awaited"
    return None


class Comparison:
    """A comparison of one language with the table."""

    def __init__(self, language: str, surface: Surface, table: Table) -> None:
        self.language = language
        self.types, self.public = surface
        self.table = table
        # Names in the table, by type.
        self.known: dict[str, set[str]] = {}

    def deviation(self, entry: Table) -> Table:
        """Return an entry's differences for this language. aio uses Python's unless it has its own."""
        as_python: Table = entry.get("python", {}) if self.language == "aio" else {}
        own: Table = entry.get(self.language, as_python)
        return own

    def name(self, name: str, entry: Table) -> str:
        """Return a member's name in this language."""
        own: str = self.deviation(entry).get("as", camel(name) if self.language == "node" else name)
        return own

    def entries(self, name: str) -> dict[str, Table]:
        """Return the members of a type from the table, including inherited ones."""
        section = self.table[name]
        inherited = self.entries(section["extends"]) if "extends" in section else {}
        own = {key: value for key, value in section.items() if key not in ABOUT_A_TYPE}
        return inherited | {key: {"is": one} if isinstance(one, str) else one for key, one in own.items()}

    def members(self, name: str) -> Iterator[str]:
        """Yield the problems with the members of a type."""
        section = self.table[name]
        here = section.get("names", {}).get(self.language, name)
        if self.language in section.get("absent", {}):
            if here in self.public:
                yield f"{here} is there, but absent in the table"
            return
        if here not in self.public:
            yield f"{here} is missing"
            return
        self.known.setdefault(here, set())
        members = flattened(self.types, here)
        for key, entry in self.entries(name).items():
            wanted, deviation = self.name(key, entry), self.deviation(entry)
            where = f"{here}.{wanted}"
            if "absent" in deviation:
                if wanted in members:
                    self.known[here].add(wanted)
                    yield f"{where} is there, but absent in the table: {deviation['absent']}"
                continue
            self.known[here].add(wanted)
            if wanted not in members:
                yield f"{where} is missing"
                continue
            member = members[wanted]
            kind: str = deviation.get("is") or entry["is"]
            if problem := kind_problem(self.language, kind, member):
                yield f"{where} {problem}"
            if "unit" in entry and (
                problem := unit_problem(self.language, entry["unit"], member, self.types[here].doc)
            ):
                yield f"{where} {problem}"

    def options(self, name: str) -> Iterator[str]:
        """Yield the problems with a set of options."""
        section = self.table["options"][name]
        place = section.get("in", {}).get(self.language, name)
        if not place:
            return
        owner, _, method = place.partition(".")
        if owner not in self.types:
            yield f"{place}, which should hold options, is missing"
            return
        here = self.types[owner]
        if method:
            members = flattened(self.types, owner)
            if method not in members:
                yield f"{place}, which should take options, is missing"
                return
            found = members[method].parameters
        else:
            found = flattened(self.types, owner) if self.language in {"rust", "node"} else here.constructor
        names = set()
        for key, entry in section.items():
            if key in ABOUT_A_TYPE:
                continue
            wanted, deviation = self.name(key, entry), self.deviation(entry)
            where = f"{place}: the option {wanted}"
            if "absent" in deviation:
                if wanted in found:
                    yield f"{where} is there, but absent in the table: {deviation['absent']}"
                continue
            names.add(wanted)
            if wanted not in found:
                yield f"{where} is missing"
                continue
            member = found[wanted]
            if "unit" in entry and (problem := unit_problem(self.language, entry["unit"], member, here.doc)):
                yield f"{where} {problem}"
            if "default" in entry and (problem := default_problem(self.language, entry, member)):
                yield f"{where} {problem}"
        # Arguments without a default are not options, except in records, where every field is an option.
        is_record = not method and self.language in {"rust", "node"}
        extra = {key for key, one in found.items() if is_record or one.default is not None} - names
        if is_record:
            self.known.setdefault(owner, set()).update(names)
        else:
            extra -= {"client", "permits", "shared_count"}
        for key in sorted(extra):
            yield f"{place}: the option {key} is not in the table"

    def problems(self) -> Iterator[str]:
        """Yield all problems."""
        for name in self.table:
            if name not in {"options", "alone"}:
                yield from self.members(name)
        for name in self.table["options"]:
            yield from self.options(name)
        alone = set(self.table["alone"].get(self.language, {}))
        records = {
            section.get("in", {}).get(self.language, name) for name, section in self.table["options"].items()
        }
        for name in sorted(self.public):
            if name in alone or name in records or name.endswith("Error"):
                continue
            if name not in self.known:
                yield f"{name} is not in the table"
                continue
            for member in sorted(set(flattened(self.types, name)) - self.known[name]):
                yield f"{name}.{member} is not in the table"
        for name in sorted(alone - self.public):
            yield f"{name} is missing"


def problems(root: Path, found: dict[str, Surface] | None = None, table: Table | None = None) -> list[str]:
    """Return the problems in all languages."""
    table = table or tomllib.loads((root / TABLE).read_text())
    wrong = []
    for language, surface in (found or surfaces(root)).items():
        wrong += [f"{language}: {problem}" for problem in Comparison(language, surface, table).problems()]
    codes = {"rust": rust.errors(root), "python": python.errors(root), "node": node.errors(root)}
    for language, errors in codes.items():
        if errors != codes["rust"]:
            wrong.append(f"{language}: the errors are {errors}, not {codes['rust']}")
    return wrong


def main() -> int:
    """Print the problems. Return 1 if there are any."""
    wrong = problems(ROOT)
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
