"""Reads the public types of the Node package from the declarations that tsc writes."""

from __future__ import annotations

import re
from pathlib import Path

from surfaces.model import FUNCTIONS, Member, Type, Types

DECLARATIONS = Path("bindings-node/dist")
ENTRIES = ("tracing/opentelemetry", "prometheus", "testing")
"""The other entries. They declare what they export."""

_TYPE = re.compile(
    r"^export (?:declare )?(?:abstract )?(?:class|interface) (\w+)(?:<.*?>)?(?: extends (\w+))?.* \{$"
)
_GETTER = re.compile(r"^    get (\w+)\(\): (.*);$")
_FIELD = re.compile(r"^    (?:readonly )?(\w+)(\?)?: (.*);$")
_METHOD = re.compile(r"^    (static )?(\w+)(?:<.*?>)?\((.*)\): (.*);$")
_CONSTRUCTOR = re.compile(r"^    constructor\((.*)\);$")
_FUNCTION = re.compile(r"^export declare function (\w+)(?:<.*?>)?\((.*)\): (.*);$")
_EXPORT = re.compile(r"^export (?:type )?\{(.*?)\} from", re.MULTILINE | re.DOTALL)


def _read(types: Types, text: str) -> None:
    doc: list[str] = []
    commented = False
    current: Type | None = None
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("/**"):
            doc, commented = [], True
        if commented:
            doc.append(bare.removeprefix("/**").removesuffix("*/").lstrip("* ").strip())
            commented = not bare.endswith("*/")
            continue
        said = " ".join(doc)
        doc = []
        if match := _TYPE.match(line):
            current = types.setdefault(match[1], Type())
            current.doc = said
            current.bases += [match[2]] if match[2] else []
        elif match := _FUNCTION.match(line):
            functions = types.setdefault(FUNCTIONS, Type())
            # Only the first of several overloads is documented.
            if match[1] not in functions.members:
                functions.members[match[1]] = Member(
                    match[3],
                    said,
                    is_async=match[3].startswith("Promise<"),
                    parameters=_arguments(match[2]),
                )
        elif line == "}":
            current = None
        elif current is None or "@internal" in said:
            continue
        elif match := _GETTER.match(line):
            current.members[match[1]] = Member(match[2], said, is_property=True)
        elif match := _CONSTRUCTOR.match(line):
            current.constructor = _arguments(match[1])
        elif match := _FIELD.match(line):
            current.members[match[1]] = Member(match[3], said, is_property=True)
        elif match := _METHOD.match(line):
            known = current.members.get(match[2])
            parameters = _arguments(match[3]) | (known.parameters if known else {})
            current.members[match[2]] = Member(
                match[4],
                said or (known.doc if known else ""),
                is_async=match[4].startswith("Promise<"),
                parameters=parameters,
            )


def _arguments(text: str) -> dict[str, Member]:
    found = {}
    for part in re.split(r",\s*(?=\w+\??:)", text):
        name, colon, type_ = part.partition(":")
        if colon:
            found[name.strip().rstrip("?")] = Member(type_.strip())
    return found


def types(root: Path) -> tuple[Types, set[str]]:
    """Return all types of the package, and the names of the public ones."""
    found: Types = {}
    for file in sorted((root / DECLARATIONS).rglob("*.d.ts")):
        _read(found, file.read_text())
    names = " , ".join(_EXPORT.findall((root / DECLARATIONS / "index.d.ts").read_text()))
    public = {name.replace("type ", "").strip() for name in names.split(",")}
    declared: Types = {}
    for entry in ENTRIES:
        _read(declared, (root / DECLARATIONS / f"{entry}.d.ts").read_text())
    functions = found[FUNCTIONS].members
    for name in set(functions) - public - set(declared[FUNCTIONS].members):
        del functions[name]
    return found, {name for name in public if name in found} | set(declared)


def errors(root: Path) -> dict[str, str]:
    """Return the code of each error: its name in capitals, if the union of codes contains it."""
    text = (root / DECLARATIONS / "errors.d.ts").read_text()
    codes = set(re.findall(r"'([A-Z_]+)'", text))
    found = {}
    for name in re.findall(r"^export declare class (\w+)Error extends (?!Error)", text, re.MULTILINE):
        code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        found[name] = code if code in codes else ""
    return found
