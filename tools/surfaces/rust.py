"""Reads the public types of the crate from its text in rustfmt's layout."""

from __future__ import annotations

import re
from pathlib import Path

from surfaces.model import FUNCTIONS, Member, Type, Types

SOURCE = Path("core/src")

_STRUCT = re.compile(r"^pub (?:struct|enum) (\w+)")
_IMPL = re.compile(r"^impl(?:<.*?>)? (\w+)(?:<[\w, ]*>)? (?:where .*)?\{$")
_DEREF = re.compile(r"^impl Deref for (\w+) \{$")
_TARGET = re.compile(r"^    type Target = (\w+);")
_FIELD = re.compile(r"^    pub (\w+): (.*),$")
_FUNCTION = re.compile(r"^    pub (?:const )?(async )?fn (\w+)")
_ALIAS = re.compile(r"^pub use [\w:]+::(\w+) as (\w+);", re.MULTILINE)
_FREE = re.compile(r"^pub (async )?fn (\w+)")
_EXPORT = re.compile(r"^pub use [\w:]+::(\{.*?\}|\w+);", re.MULTILINE | re.DOTALL)


def _arguments(text: str, doc: str) -> dict[str, Member]:
    found, depth, start = {}, 0, 0
    for at, letter in enumerate(text + ","):
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            name, colon, type_ = text[start:at].partition(":")
            name = name.replace("mut ", "").strip()
            if colon and name not in {"self", "&self"}:
                found[name] = Member(type_.strip(), doc)
            start = at + 1
    return found


def _signature(text: str, name: str) -> tuple[str, str]:
    """Return the arguments and the return type of a function."""
    start = at = text.index("(", text.index(f"fn {name}"))
    depth = 0
    while True:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            break
    rest = re.split(r" where |\{|;", text[at:], maxsplit=1)[0]
    return text[start + 1 : at - 1], rest.strip().removeprefix("->").strip()


def _function(lines: list[str], match: re.Match[str], said: str) -> Member:
    """Return the function that begins in the first of these lines."""
    arguments, returned = _signature(" ".join(line.strip() for line in lines[:12]), match[2])
    return Member(
        returned,
        said,
        is_async=bool(match[1]) or returned.startswith("impl Future"),
        parameters=_arguments(arguments, said),
    )


def _read(types: Types, text: str) -> None:
    doc: list[str] = []
    current: Type | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith("///"):
            doc.append(line.strip()[3:].strip())
            continue
        if line.strip().startswith("#["):
            continue
        said, doc = " ".join(doc), []
        if match := _STRUCT.match(line):
            current = types.setdefault(match[1], Type())
            current.doc = said
        elif match := _IMPL.match(line) or _DEREF.match(line):
            current = types.setdefault(match[1], Type())
        elif match := _FREE.match(line):
            current = None
            types.setdefault(FUNCTIONS, Type()).members[match[2]] = _function(lines[number:], match, said)
        elif line.startswith(("impl", "}", "fn", "pub", "mod", "#[cfg(test)]")):
            current = None
        elif current is not None:
            if match := _TARGET.match(line):
                current.bases.append(match[1])
            elif match := _FIELD.match(line):
                current.members[match[1]] = Member(match[2], said, is_property=True)
            elif match := _FUNCTION.match(line):
                current.members[match[2]] = _function(lines[number:], match, said)


def types(root: Path) -> tuple[Types, set[str]]:
    """Return all types of the crate, and the names of the public ones."""
    found: Types = {}
    aliases: dict[str, str] = {}
    for file in sorted((root / SOURCE).rglob("*.rs")):
        if not {"machine", "internal", "blocking.rs"} & set(file.parts):
            text = file.read_text()
            _read(found, text)
            aliases |= _ALIAS.findall(text)
    for name, alias in aliases.items():
        if name in found:
            found[alias] = found.pop(name)
    library = re.sub(
        r"#\[doc\(hidden\)\]\npub use .*?;", "", (root / SOURCE / "lib.rs").read_text(), flags=re.DOTALL
    )
    public = {name.strip() for names in _EXPORT.findall(library) for name in names.strip("{}").split(",")}
    functions = found[FUNCTIONS].members
    for name in set(functions) - public:
        del functions[name]
    types = {name for name in public if name[0].isupper()} - {"Result", "HOSTS_VARIABLE"}
    return found, types | {FUNCTIONS}


def errors(root: Path) -> dict[str, str]:
    """Return the code of each kind of error."""
    text = (root / SOURCE / "error" / "mod.rs").read_text()
    return dict(re.findall(r"(?:Self|ErrorKind)::(\w+) => \"([A-Z_]+)\"", text))
