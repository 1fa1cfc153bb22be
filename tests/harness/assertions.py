"""Which scenarios assert nothing, as their sources say.

A test asserts by `assert`, by `pytest.raises`, or by a call of what asserts in its turn: a function of its
file, one that its file imports from the harness, or a method, if all of that name in the harness assert. What
only tells mypy that something is not None asserts nothing, nor does what fails because a worker is silent.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Module:
    """One file."""

    functions: dict[str, Function] = field(default_factory=dict)
    methods: dict[str, list[Function]] = field(default_factory=dict)
    # Where a name comes from: a module, and the name there.
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
    """What a function does itself: not what the functions in it do, if nobody calls them."""
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
    """The files below a directory, and what in them asserts."""

    def __init__(self, root: Path) -> None:
        parts = ("harness", "scenarios", "cli")
        found = [path for part in parts for path in sorted((root / part).rglob("*.py"))]
        self._modules = {
            ".".join(path.relative_to(root).with_suffix("").parts): _read(path) for path in found
        }
        self._known: dict[Function, bool] = {}

    def silent(self) -> list[str]:
        """The scenarios that assert nothing."""
        return [
            f"{name} asserts nothing"
            for where, module in self._modules.items()
            for name, function in module.functions.items()
            if where.startswith(("scenarios.", "cli.")) and name.startswith("test_")
            if not self._asserts(function, module)
        ]

    def _asserts(self, function: Function, module: _Module) -> bool:
        if function not in self._known:
            # One that calls itself asserts only if it does so elsewhere.
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
