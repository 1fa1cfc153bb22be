"""Compares the public API of each language with docs/api.toml, in both directions. Fails also if a public
name is in no document, or is missing on its package's page.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
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
# Arguments that are no options.
ARGUMENTS = re.compile(r"\((client|permits|shared_count)\)$")

Table = dict[str, Any]

_CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
# A reference to another member, whose own text is checked separately.
_REFERENCE = re.compile(r"(?:those of|see|as|of) `(?:zklock\.\w|acquire)", re.IGNORECASE)
# The type of a unit, and what the documentation says.
_UNITS = {
    "time": {"rust": ("Duration", ""), "python": ("float", "seconds"), "node": ("number", "ms")},
    "instant": {
        "rust": ("u64", "milliseconds since 1970"),
        "python": ("float", "seconds since 1970"),
        "node": ("Date", ""),
    },
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
    """Return the members of a section in this language by their names there, including inherited ones. aio
    deviates as Python does, unless it has its own entry.
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
            # Options are the members of a record, or the parameters of a method or of the constructor.
            form = "{}.{}" if language in {"rust", "node"} and "." not in place else "{}({})"
            wanted.setdefault(place, {})
            wanted |= {form.format(place, key): one for key, one in entries(section, table, language).items()}
    return wanted


def faults(language: str, entry: Table, name: Name) -> Iterator[str]:
    """Yield in what a name differs from its entry."""
    if kind := entry.get("is"):
        # Python blocks. In Rust, everything is a method if it can fail or takes a lock.
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
        required = parenthesis and (names[key].default is None or ARGUMENTS.search(key))
        if not required and (not parenthesis or place in places) and place.partition(".")[0] not in alone:
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
            wrong += [
                f"{language}: '{one}' of {kind} is not as in Rust and the table" for one in sorted(differ)
            ]
    return wrong


def words(*pages: Path) -> set[str]:
    """Return the words inside code on some pages."""
    return {
        word
        for page in pages
        for code in _CODE.findall(page.read_text())
        for word in re.findall(r"\w+", code)
    }


def undocumented(root: Path, strings: dict[str, Strings], table: Table) -> list[str]:
    """Return the names that are in no document, or not on their package's page. If a Node name differs from
    the others only by its camel case, the common name in the documents is enough.
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


if __name__ == "__main__":
    here, table = found(ROOT), read(ROOT)
    wrong = problems(here, table) + undocumented(ROOT, here[1], table)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
