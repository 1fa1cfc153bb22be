"""Finds scenarios that contain no assertion, by parsing their sources.

A test asserts if it contains `assert` or `pytest.raises`, or calls a function that asserts. That function can
be in the same file or imported from the harness. A method call counts if all harness methods of that name
assert. These do not count: an `assert` that only tells mypy that a value is not None, and a call that can
fail only because a worker does not reply.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Module:
    """The functions, methods and imports of one source file."""

    functions: dict[str, Function] = field(default_factory=dict)
    methods: dict[str, list[Function]] = field(default_factory=dict)
    # Local name -> (module, name in that module).
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


def _read(path: Path) -> _Module:
    module = _Module()
    tree = ast.parse(path.read_text())
    methods = {each for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            if node in methods:
                module.methods.setdefault(node.name, []).append(node)
            else:
                module.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                module.imports[name.asname or name.name] = (node.module, name.name)
    return module


def _own(function: Function) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function, without the bodies of its nested functions."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, Function):
            todo.extend(ast.iter_child_nodes(node))


def _narrows(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.IsNot)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )


def _raises_assertion(node: ast.Raise) -> bool:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "AssertionError"


class Sources:
    """The source files below a directory. It finds tests that assert nothing."""

    def __init__(self, root: Path) -> None:
        parts = ("harness", "scenarios", "cli")
        found = [path for part in parts for path in sorted((root / part).rglob("*.py"))]
        self._modules = {
            ".".join(path.relative_to(root).with_suffix("").parts): _read(path) for path in found
        }
        self._known: dict[Function, bool] = {}

    def silent(self) -> list[str]:
        """Return the scenarios that assert nothing."""
        return [
            f"{name} asserts nothing"
            for where, module in self._modules.items()
            for name, function in module.functions.items()
            if where.startswith(("scenarios.", "cli.")) and name.startswith("test_")
            if not self._asserts(function, module)
        ]

    def _asserts(self, function: Function, module: _Module) -> bool:
        if function not in self._known:
            # This entry ends the recursion if the function calls itself. The recursive call does not count
            # as an assertion.
            self._known[function] = False
            self._known[function] = any(self._is_assertion(node, module) for node in _own(function))
        return self._known[function]

    def _is_assertion(self, node: ast.AST, module: _Module) -> bool:
        if isinstance(node, ast.Assert):
            return not _narrows(node.test)
        if isinstance(node, ast.Raise):
            return _raises_assertion(node)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name):
            return self._function_asserts(node.func.id, module)
        if isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            return called == "pytest.raises" or self._method_asserts(node.func.attr)
        return False

    def _function_asserts(self, name: str, module: _Module) -> bool:
        if (function := module.functions.get(name)) is not None:
            return self._asserts(function, module)
        where, name = module.imports.get(name, ("", name))
        imported = self._modules.get(where)
        return imported is not None and self._function_asserts(name, imported)

    def _method_asserts(self, name: str) -> bool:
        found = [
            self._asserts(method, module)
            for module in self._modules.values()
            for method in module.methods.get(name, [])
        ]
        return bool(found) and all(found)
