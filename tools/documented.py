"""Fails if a public name is in no document. The names are those of docs/api.toml and the errors.

If a Node name differs from the others only by its camel case, the common name in the documents is enough, as
docs/api.md says.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from api import ABOUT_A_TYPE, TABLE, Comparison, Table
from surfaces import rust
from surfaces.model import FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/*.md", "bindings-*/README.md")
PUBLISHED = {
    "bindings-python/README.md": {"python", "python and rust"},
    "bindings-node/README.md": {"node"},
}
NODE_ENTRIES = tuple(
    f"bindings-node/src/{entry}.ts" for entry in ("index", "tracing/opentelemetry", "prometheus")
)
LANGUAGES = ("rust", "python", "aio", "node")

_CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)


def documented(root: Path) -> set[str]:
    """Return the words inside code in the documents."""
    texts = (page.read_text() for pattern in DOCUMENTS for page in sorted(root.glob(pattern)))
    return {word for text in texts for code in _CODE.findall(text) for word in re.findall(r"\w+", code)}


def names(table: Table, errors: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every public name with the place where it is defined."""
    for language in LANGUAGES:
        here = Comparison(language, ({}, set()), table)
        for name in table:
            if name in {"options", "alone"} or language in table[name].get("absent", {}):
                continue
            own = table[name].get("names", {}).get(language, name)
            if name != FUNCTIONS:
                yield own, language
            for key, entry in here.entries(name).items():
                if "absent" not in (deviation := here.deviation(entry)):
                    yield deviation.get("as", key), f"{language}: {own}"
        for name, section in table["options"].items():
            place = section.get("in", {}).get(language, name)
            if not place:
                continue
            if "." not in place:
                yield place, language
            for key, entry in section.items():
                if key not in ABOUT_A_TYPE and "absent" not in (deviation := here.deviation(entry)):
                    yield deviation.get("as", key), f"{language}: {place}"
        for name in table["alone"].get(language, {}):
            yield name, language
    for kind, code in errors.items():
        yield code, "the codes"
        yield kind, "python and rust"
        yield f"{kind}Error", "node"


def problems(root: Path) -> list[str]:
    """Return the names that are in no document."""
    known = documented(root)
    table = tomllib.loads((root / TABLE).read_text())
    missing = {name: where for name, where in names(table, rust.errors(root)) if name not in known}
    return [f"{name} ({where}) stands in no document" for name, where in sorted(missing.items())]


def exported(root: Path) -> Iterator[str]:
    """Yield the exports of the npm package, including types, because docs/api.toml does not name the types of
    single values.
    """
    for entry in NODE_ENTRIES:
        text = (root / entry).read_text()
        for names_of_one in re.findall(r"^export (?:type )?\{(.*?)\}", text, re.DOTALL | re.MULTILINE):
            yield from re.findall(r"(\w+)\s*(?:,|$)", names_of_one.strip())
        yield from re.findall(
            r"^export (?:async )?(?:class|function|interface|type) (\w+)", text, re.MULTILINE
        )


def unpublished(root: Path) -> list[str]:
    """Return the public names that are missing on a package's page on PyPI or npm."""
    table = tomllib.loads((root / TABLE).read_text())
    everywhere = list(names(table, rust.errors(root)))
    wrong = []
    for page, languages in PUBLISHED.items():
        known = {
            word for code in _CODE.findall((root / page).read_text()) for word in re.findall(r"\w+", code)
        }
        shown = {name for name, where in everywhere if where.partition(":")[0] in {"the codes", *languages}}
        if "node" in languages:
            shown = {name if name.isupper() else _camel(name) for name in shown} | set(exported(root))
        wrong += [f"{name} is not in {page}" for name in sorted(shown - known)]
    return wrong


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


def main() -> int:
    """Print the missing names. Return 1 if there are any."""
    wrong = problems(ROOT) + unpublished(ROOT)
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
