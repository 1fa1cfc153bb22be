"""Reads the public types of Python: `zklock` from the stub, and `zklock.aio` from its modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from surfaces.model import FUNCTIONS, Member, Type, Types

PACKAGE = Path("bindings-python/python/zklock")
EXPORTERS = ("opentelemetry.py", "prometheus.py")

# `Answer` is a coroutine that has no truth value. `Acquiring` is also a context manager.
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
        found.members[one.name] = _member(one, own, parameters)
    return found


def _member(node: ast.FunctionDef | ast.AsyncFunctionDef, doc: str, parameters: dict[str, Member]) -> Member:
    returned = ast.unparse(node.returns) if node.returns else ""
    decorators = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
    is_coroutine = isinstance(node, ast.AsyncFunctionDef) and "asynccontextmanager" not in decorators
    return Member(
        returned,
        doc,
        is_property="property" in decorators,
        is_async=is_coroutine or returned.startswith(_AWAITABLE),
        parameters=parameters,
    )


def _functions(files: Iterable[Path], public: set[str]) -> Type:
    found = Type()
    for file in files:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in public:
                doc = ast.get_docstring(node) or ""
                found.members[node.name] = _member(node, doc, _parameters(node, doc))
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
    """Return all types of `zklock`, `zklock.testing` and the exporters, and the names of the public ones."""
    package = root / PACKAGE
    exporters = [package / name for name in EXPORTERS]
    files = [package / "_zklock.pyi", *exporters]
    types = _classes(files)
    modules = [package / "__init__.py", package / "testing" / "__init__.py", *exporters]
    public = {name for module in modules for name in _public(module)}
    types[FUNCTIONS] = _functions(files, public)
    return types, public & set(types) | {FUNCTIONS}


def asynchronous(root: Path) -> tuple[Types, set[str]]:
    """Return all types of `zklock.aio`, and the names of the public ones."""
    package = root / PACKAGE / "aio"
    return _classes(sorted(package.glob("*.py"))), _public(package / "__init__.py")


def errors(root: Path) -> dict[str, str]:
    """Return the code of each error."""
    found = {}
    for node in ast.parse((root / PACKAGE / "_errors.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                if (match := _CODE.match(ast.unparse(one))) is not None:
                    found[node.name] = match[1]
    return found
