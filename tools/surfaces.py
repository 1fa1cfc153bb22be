"""Reads the public API of each language: griffe for Python, TypeDoc for Node, rustdoc for Rust.

Types, members and parameters have keys:

- A type has its name as the key.
- A member has the key `Type.member`.
- A parameter of a method has the key `Type.method(name)`.
- A parameter of a constructor has the key `Type(name)`.

Functions are listed as members of an artificial type `functions`. `Strings` contains the values of each
enumeration and the code of each error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import griffe

FUNCTIONS = "functions"
PYTHON = Path("bindings-python/python")
# Types of awaitable results. An `Answer` is a coroutine that cannot be used as a truth value. `Acquiring` is
# also a context manager.
_AWAITABLE = ("Coroutine", "Awaitable", "Answer", "Acquiring")
_ERROR = re.compile(r"^class (\w+)\((?:(?!^class).)*?\bcode\b[^\n]* = \"(\w+)\"$", re.MULTILINE | re.DOTALL)
_UNION = re.compile(r"^_(\w+): TypeAlias = Literal\[(.*?)\]", re.MULTILINE | re.DOTALL)
_IMPL = re.compile(r"^impl (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_ARM = re.compile(r"(?:Self|ErrorKind)::(\w+)(?:\(.*?\))? => \"([\w -]+)\"")


@dataclass
class Name:
    """A public name."""

    kind: str
    types: str = ""
    doc: str = ""
    default: str | None = None


Surface = dict[str, Name]
Strings = dict[str, set[str]]


def _texts(field: str, one: Any) -> str:
    """Return all values of a field in a nested description, such as the names of all types in it."""
    found = re.findall(rf'"(?:{field})": "((?:[^"\\]|\\.)*)"', json.dumps(one, ensure_ascii=False))
    return " ".join(found).replace("\\n", " ")


def _python_names(key: str, one: Any, doc: str) -> Iterator[tuple[str, Name]]:
    """Yield a function with its parameters, or a property."""
    doc = f"{one.docstring.value if one.docstring else ''} {doc}"
    if not one.is_function:
        yield key, Name("property", str(one.annotation), doc)
        return
    parameters = [parameter for parameter in one.parameters if parameter.name not in {"self", "cls"}]
    is_async = "async" in one.labels and "asynccontextmanager" not in str([d.value for d in one.decorators])
    types = " ".join(map(str, (one.returns, *(parameter.annotation for parameter in parameters))))
    yield key, Name("method" + " async" * (is_async or types.startswith(_AWAITABLE)), types, doc)
    for parameter in parameters:
        default = None if parameter.default is None else str(parameter.default)
        yield f"{key}({parameter.name})", Name("option", str(parameter.annotation), doc, default)


def python(root: Path, *modules: str) -> Surface:
    """Return the public names of these modules, without the exceptions."""
    package: Any = griffe.load("zklock", search_paths=[root / PYTHON], resolve_aliases=True)
    namespaces = [package.modules_collection[module] for module in modules]
    found: Surface = {}
    for name, one in ((name, module[name]) for module in namespaces for name in module.exports):
        if one.is_function:
            found |= {FUNCTIONS: Name("type"), **dict(_python_names(f"{FUNCTIONS}.{name}", one, ""))}
        if not one.is_class or "._errors." in one.canonical_path:
            continue
        doc = one.docstring.value if one.docstring else ""
        for key, member in one.all_members.items():
            if key in {"__new__", "__init__"}:
                found |= _python_names(name, member, doc)
            elif not key.startswith("_") and (member.is_function or "property" in member.labels):
                found |= _python_names(f"{name}.{key}", member, doc)
        found[name] = Name("type")
    return found


def python_strings(root: Path) -> Strings:
    """Return the strings of Python."""
    unions = _UNION.findall((root / PYTHON / "zklock/_zklock.pyi").read_text())
    errors = _ERROR.findall((root / PYTHON / "zklock/_errors.py").read_text())
    found = {name: set(re.findall(r'"(.*?)"', text)) for name, text in unions}
    return found | {"errors": set(map(" ".join, errors))}


def typedoc(root: Path) -> list[Any]:
    """Return TypeDoc's descriptions of the exports of the Node package. The addon must be built."""
    command = ["node_modules/.bin/typedoc", "--logLevel", "Warn", "--json", "/dev/stdout"]
    made = subprocess.run(command, cwd=root / "bindings-node", stdout=subprocess.PIPE, check=True).stdout
    return [one for module in json.loads(made)["children"] for one in module["children"]]


def node(exports: list[Any]) -> Surface:
    """Return the public classes, interfaces and functions of the package, without the errors."""
    found: Surface = {FUNCTIONS: Name("type")}
    for one in exports:
        members = one.get("children", []) if not one["name"].endswith("Error") else []
        if members:
            found[one["name"]] = Name("type")
        for member in [one] if "signatures" in one else members:
            returned = [signature["type"].get("name") for signature in member.get("signatures", [])]
            kind = "method" + " async" * ("Promise" in returned) if returned else "property"
            about = f"{_texts('text', member)} {_texts('text', one.get('comment'))}"
            key = f"{FUNCTIONS if member is one else one['name']}.{member['name']}"
            if member["name"].isidentifier() and member["name"] != "constructor":
                found[key] = Name(kind, _texts("name", member), about)
    return found


def node_strings(exports: list[Any]) -> Strings:
    """Return the values of Node's enumerations, and the codes of the errors that have one."""
    types = {one["name"]: one.get("type", {}).get("types", []) for one in exports}
    found = {name: {part["value"] for part in parts if "value" in part} for name, parts in types.items()}
    errors = [name.removesuffix("Error") for name in types if name.endswith("Error")]
    codes = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in errors}
    return found | {
        "errors": {f"{name} {code}" for name, code in codes.items() if code in found["ErrorCode"]}
    }


def rustdoc(root: Path) -> Any:
    """Return rustdoc's description of the crate, in its unstable format."""
    command = ["cargo", "rustdoc", "--quiet", "--locked", "--package", "zklock", "--lib", "--"]
    command += ["-Z", "unstable-options", "--output-format", "json", "--document-hidden-items"]
    program = {"RUSTDOC": str(root / "tools/unstable_rustdoc.sh")}
    subprocess.run(command, cwd=root, check=True, env=os.environ | program)
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return json.loads((target / "doc/zklock.json").read_text())


def _rust_names(index: Any, numbers: list[int], owner: str = FUNCTIONS) -> Iterator[tuple[str, Name]]:
    """Yield the public items with these ids. If a type implements `Deref`, include the target's members."""
    for item in (index[str(number)] for number in numbers if str(number) in index):
        ((kind, inner),) = item["inner"].items()
        key, types, doc = f"{owner}.{item['name']}", _texts("path|primitive", inner), item["docs"] or ""
        if kind == "impl" and inner["trait"] is None:
            yield from _rust_names(index, inner["items"], owner)
        elif kind == "impl" and inner["trait"]["path"] == "Deref":
            target = index[str(inner["items"][0])]["inner"]["assoc_type"]["type"]["resolved_path"]["id"]
            yield from _rust_names(index, index[str(target)]["inner"]["struct"]["impls"], owner)
        elif "hidden" in str(item["attrs"]) or item["visibility"] != "public":
            continue
        elif kind == "function":
            is_async = inner["header"]["is_async"]
            is_async = is_async or _texts("path", inner["sig"]["output"]).startswith("Future")
            yield key, Name("method" + " async" * is_async, types, doc)
        elif kind == "struct_field":
            yield key, Name("property", types, doc)
        elif kind == "use":
            # An item can be exported under another name.
            index.get(str(inner["id"]), {})["name"] = inner["name"]
            yield from _rust_names(index, [inner["id"]])
        elif kind in {"struct", "enum"}:
            yield item["name"], Name("type")
            shape = inner.get("kind", ())
            fields = shape["plain"]["fields"] if "plain" in shape else []
            yield from _rust_names(index, [*inner["impls"], *fields], item["name"])


def rust(description: Any) -> Surface:
    """Return the public types and functions at the top of the crate."""
    index, root = description["index"], str(description["root"])
    return {FUNCTIONS: Name("type"), **dict(_rust_names(index, index[root]["inner"]["module"]["items"]))}


def rust_strings(root: Path) -> Strings:
    """Return the strings of Rust, from the functions that return them."""
    found: Strings = {"errors": set()}
    for file in (root / "core/src").rglob("*.rs"):
        for name, body in _IMPL.findall(file.read_text()):
            arms = _ARM.findall(body)
            found.setdefault(name, set()).update(string for _, string in arms)
            found["errors"] |= {" ".join(arm) for arm in arms if name == "ErrorKind"}
    return found
