"""The public types of Python: of `zklock` from the stub, of `zklock.aio` from its modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from surfaces.model import Member, Type, Types

PACKAGE = Path("bindings-python/python/zklock")

# `Answer` is a coroutine that is not taken for true; `Acquiring` is a context manager, too.
_AWAITABLE = ("Coroutine", "Awaitable", "Answer", "Acquiring")

_CODE = re.compile(r"code\b.* = '([A-Z_]+)'$")


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, doc: str) -> dict[str, Member]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    found = {}
    pairs = [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        if argument.arg not in {"self", "cls"}:
            type_ = ast.unparse(argument.annotation) if argument.annotation else ""
            given = None if default is None else ast.unparse(default)
            found[argument.arg] = Member(type_, doc, default=given)
    return found


def _class(node: ast.ClassDef) -> Type:
    doc = ast.get_docstring(node) or ""
    # `Acquirable[Lease]` inherits from `Acquirable`.
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    found = Type(doc, [base.id for base in bases if isinstance(base, ast.Name)])
    for one in node.body:
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        own = ast.get_docstring(one) or ""
        parameters = _parameters(one, own or doc)
        if one.name in {"__new__", "__init__"}:
            found.constructor = parameters
        if one.name.startswith("_"):
            continue
        returned = ast.unparse(one.returns) if one.returns else ""
        found.members[one.name] = Member(
            returned,
            own,
            is_property=any(isinstance(d, ast.Name) and d.id == "property" for d in one.decorator_list),
            is_async=isinstance(one, ast.AsyncFunctionDef) or returned.startswith(_AWAITABLE),
            parameters=parameters,
        )
    return found


def _classes(files: Iterable[Path]) -> Types:
    return {
        node.name: _class(node)
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def _public(file: Path) -> set[str]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise SystemExit(f"{file} has no __all__")


def blocking(root: Path) -> tuple[Types, set[str]]:
    """All types of `zklock` and `zklock.testing`, and which are public."""
    package = root / PACKAGE
    types = _classes([package / "_zklock.pyi"])
    public = _public(package / "__init__.py") | _public(package / "testing" / "__init__.py")
    return types, public & set(types)


def asynchronous(root: Path) -> tuple[Types, set[str]]:
    """All types of `zklock.aio`, and which are public."""
    package = root / PACKAGE / "aio"
    return _classes(sorted(package.glob("*.py"))), _public(package / "__init__.py")


def errors(root: Path) -> dict[str, str]:
    """The code of each error."""
    found = {}
    for node in ast.parse((root / PACKAGE / "_errors.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                if (match := _CODE.match(ast.unparse(one))) is not None:
                    found[node.name] = match[1]
    return found
