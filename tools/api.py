"""Compares the public API of each language with docs/api.toml, in both directions.

It also fails if a public name is in no document or not on its package's page, or if a generated table of
options or properties is out of date.

With --tables, it writes the generated tables instead. Each is between a comment such as
`<!-- table: options Mutex Semaphore -->` or `<!-- table: properties Lease -->`, and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import surfaces
from surfaces import FUNCTIONS, Name, Strings, Surface

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("docs/api.toml")
LANGUAGES = ("rust", "python", "aio", "node")
ABOUT_A_TYPE = {"absent", "extends", "in"}
NOT_TYPES = {"options", "alone", "strings"}
DOCUMENTS = ("README.md", "docs/*.md", "bindings-*/README.md")
PAGES = {"python": "bindings-python/README.md", "node": "bindings-node/README.md"}
WITH_TABLES = {"docs/api.md": "python", **{page: language for language, page in PAGES.items()}}

Table = dict[str, Any]

_PLACE = re.compile(r"(<!-- table: (options|properties) ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
# A reference to another member, whose own text is checked separately.
_REFERENCE = re.compile(r"(?:those of|see|as|of) `(?:zklock\.\w|acquire)", re.IGNORECASE)
# The type of a unit, and what the documentation says.
_UNITS = {
    "time": {"rust": ("Duration", ""), "python": ("float", "seconds"), "node": ("number", "ms")},
    "instant": {"rust": ("u64", "since 1970"), "python": ("float", "since 1970"), "node": ("Date", "")},
    "int64": {"rust": ("i64", ""), "python": ("int", ""), "node": ("bigint", "")},
}


@cache
def found(root: Path) -> tuple[dict[str, Surface], dict[str, Strings]]:
    """Return the public names and the strings of each language."""
    crate, exports = surfaces.rustdoc(root), surfaces.typedoc(root)
    python = surfaces.python(root, "zklock", "zklock.testing", "zklock.opentelemetry", "zklock.prometheus")
    python_strings, node_strings = surfaces.python_strings(root), surfaces.node_strings(exports)
    strings = {"rust": surfaces.rust_strings(root), "python": python_strings, "node": node_strings}
    aio, node = surfaces.python(root, "zklock.aio"), surfaces.node(exports)
    return {"rust": surfaces.rust(crate), "python": python, "aio": aio, "node": node}, strings


def read(root: Path) -> Table:
    """Return docs/api.toml."""
    return tomllib.loads((root / TABLE).read_text())


def camel(name: str) -> str:
    """Convert a name to Node's camel case."""
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name)


def entries(section: Table, table: Table, language: str) -> dict[str, Table]:
    """Return the members of a section, including inherited ones, by their names in this language.

    If an entry has no key `aio`, the key `python` also applies to the asyncio API.
    """
    found: dict[str, Table] = {}
    inherited: Table = table[section["extends"]] if "extends" in section else {}
    for name, entry in (inherited | section).items():
        entry = {"is": entry} if isinstance(entry, str) else entry
        if name in ABOUT_A_TYPE:
            continue
        own = entry.get(language, entry.get("python", {}) if language == "aio" else {})
        if "absent" not in own:
            found[own.get("as", camel(name) if language == "node" else name)] = entry | own
    return found


def expected(language: str, table: Table) -> dict[str, Table]:
    """Return what the table says of each name in this language."""
    wanted: dict[str, Table] = {name: {} for name in table["alone"].get(language, {})}
    for name in table.keys() - NOT_TYPES:
        if language not in table[name].get("absent", {}):
            members = entries(table[name], table, language)
            wanted |= {name: {}} | {f"{name}.{key}": entry for key, entry in members.items()}
    for name, section in table["options"].items():
        if place := section.get("in", {}).get(language, name):
            # Options are the members of a record, or the parameters of a method or of the constructor,
            # depending on the language.
            form = "{}.{}" if language in {"rust", "node"} and "." not in place else "{}({})"
            wanted.setdefault(place, {})
            wanted |= {form.format(place, key): one for key, one in entries(section, table, language).items()}
    return wanted


def faults(language: str, entry: Table, name: Name) -> Iterator[str]:
    """Yield the differences between a name and its entry."""
    if kind := entry.get("is"):
        # Synchronous Python has no async methods. In Rust, a method can replace a property, for example if it
        # can fail.
        kind = kind.removesuffix(" async") if language == "python" else kind
        kind = kind.replace("property", "method") if language == "rust" and name.kind != "property" else kind
        if kind != name.kind:
            yield f"is a {name.kind}, not a {kind}"
    if unit := entry.get("unit"):
        type_, said = _UNITS[unit]["python" if language == "aio" else language]
        if not re.search(rf"\b{type_}\b", name.types):
            yield f"is no {type_}"
        elif said and not re.search(rf"\b{said}\b", name.doc) and not _REFERENCE.search(name.doc):
            yield f"does not say its unit ({said})"
    if (default := entry.get("default")) is None or language == "rust":
        return
    if language == "node":
        said = str(default * 1000 if unit == "time" else default).lower()
        doc = re.sub(r"(?<=\d)[ \u202f](?=\d)", "", name.doc).lower()
        if default != -1 and f"default: {said}" not in doc:
            yield f"does not document `Default: {said}`"
    elif name.default is None or eval(name.default, {}) != default:
        yield f"has the default {name.default}, not {default}"


def differences(language: str, names: Surface, table: Table) -> Iterator[str]:
    """Yield the differences between the names of a language and the table."""
    wanted, alone = expected(language, table), table["alone"].get(language, {})
    places = {key.partition("(")[0] for key in wanted if "(" in key}
    for key in sorted(wanted.keys() - names.keys()):
        yield f"{language}: {key} is missing"
    for key in sorted(names.keys() - wanted.keys()):
        place, parenthesis, _ = key.partition("(")
        optional = not parenthesis or (place in places and names[key].default is not None)
        if optional and place.partition(".")[0] not in alone:
            yield f"{language}: {key} is not in the table"
    for key in sorted(wanted.keys() & names.keys()):
        yield from (f"{language}: {key} {fault}" for fault in faults(language, wanted[key], names[key]))


def problems(here: tuple[dict[str, Surface], dict[str, Strings]], table: Table) -> list[str]:
    """Return the problems in all languages."""
    names, strings = here
    wrong = [problem for language in LANGUAGES for problem in differences(language, names[language], table)]
    for language in ("python", "node"):
        for kind, exceptions in table["strings"].items():
            given, wanted = strings[language].get(kind, set()), strings["rust"].get(kind, set())
            differ = (given ^ wanted) ^ set(exceptions.get(language, {}))
            wrong += [f"{language}: '{one}' of {kind} is not as in Rust" for one in sorted(differ)]
    return wrong


def words(*pages: Path) -> set[str]:
    """Return the words inside code on some pages."""
    texts = (page.read_text() for page in pages)
    return set(re.findall(r"\w+", " ".join(code for text in texts for code in _CODE.findall(text))))


def undocumented(root: Path, strings: dict[str, Strings], table: Table) -> list[str]:
    """Return the public names that are in no document, or not on their package's page.

    In documents, a name in snake case also stands for the same name in camel case.
    """
    names = {one: set(re.findall(r"\w+", " ".join(expected(one, table)))) - {FUNCTIONS} for one in LANGUAGES}
    names["python"] |= {part for error in strings["python"]["errors"] for part in error.split()}
    names["node"] |= strings["node"]["ErrorCode"] | strings["node"].keys() - {"errors"}
    known = words(*(page for pattern in DOCUMENTS for page in root.glob(pattern)))
    known |= {camel(name) for name in known}
    wrong = {f"{name} is in no document" for here in names.values() for name in here - known}
    for language, page in PAGES.items():
        wrong |= {f"{name} is not in {page}" for name in names[language] - words(root / page)}
    return sorted(wrong)


def default(entry: Table, language: str) -> str:
    """Return the default of an option in its language's notation, or an empty string."""
    value = entry.get("default", -1)
    if isinstance(value, bool):
        return f"`{value if language == 'python' else str(value).lower()}`"
    if entry.get("unit") == "time" and language == "node":
        value = round(value * 1000)
    return "" if value < 0 else f"{value:,}".replace(",", " ")


def rows(table: Table, kind: str, sections: Sequence[str], language: str) -> list[str]:
    """Return the rows of a generated table.

    If only some of the sections have a member, its row names these sections.
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


def outdated(root: Path, table: Table) -> list[str]:
    """Return the documents with outdated tables."""
    wrong = []
    for name, language in WITH_TABLES.items():
        text = (root / name).read_text()
        if not _PLACE.search(text) or written(text, table, language) != text:
            wrong.append(f"{name}: its tables are not those of {TABLE}; run `make tables`")
    return wrong


if __name__ == "__main__":
    table = read(ROOT)
    if "--tables" in sys.argv:
        for name, language in WITH_TABLES.items():
            (ROOT / name).write_text(written((ROOT / name).read_text(), table, language))
        sys.exit()
    here = found(ROOT)
    wrong = [*problems(here, table), *undocumented(ROOT, here[1], table), *outdated(ROOT, table)]
    sys.exit("\n".join(wrong) or None)
