"""Arrows between the files of a Python package, from its syntax trees. A stub counts as its module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from arrows.graph import Arrows, Use

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Import:
    """A name from an import: `name` of `module`, or the module itself."""

    module: str
    name: str | None
    line: int


@dataclass
class Scope:
    """A file with its definitions, imports and mentioned names."""

    file: Path
    defined: set[str] = field(default_factory=set)
    imports: dict[str, list[Import]] = field(default_factory=dict)
    # Modules that are imported with `*`.
    stars: list[Import] = field(default_factory=list)
    # Names and dotted names in the code, and the words of strings.
    mentions: list[tuple[tuple[str, ...], int]] = field(default_factory=list)


class _Reader(ast.NodeVisitor):
    def __init__(self, scope: Scope, module: str, is_package: bool) -> None:
        self.scope = scope
        self.package = module if is_package else module.rpartition(".")[0]
        self.depth = 0

    def _import(self, alias: str, target: Import) -> None:
        self.scope.imports.setdefault(alias, []).append(target)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._import(alias.asname, Import(alias.name, None, node.lineno))
            else:
                self._import(alias.name.split(".")[0], Import(alias.name.split(".")[0], None, node.lineno))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            base = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            module = ".".join([*base, *([module] if module else [])])
        for alias in node.names:
            if alias.name == "*":
                self.scope.stars.append(Import(module, None, node.lineno))
            else:
                self._import(alias.asname or alias.name, Import(module, alias.name, node.lineno))

    def _define(self, node: ast.AST, name: str) -> None:
        if self.depth == 0:
            self.scope.defined.add(name)
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._define(node, node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._define(node, node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._define(node, node.name)

    def visit_Assign(self, node: ast.Assign) -> None:
        # `__all__` only re-exports names.
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scope.mentions.append(((node.id,), node.lineno))
        elif self.depth == 0:
            self.scope.defined.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = [node.attr]
        inner = node.value
        while isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self.scope.mentions.append(((inner.id, *reversed(path)), node.lineno))
        else:
            self.visit(inner)

    def visit_Expr(self, node: ast.Expr) -> None:
        # Ignore docstrings.
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        # A type annotation can be a string.
        if isinstance(node.value, str):
            for word in _NAME.findall(node.value):
                self.scope.mentions.append(((word,), node.lineno))


class Package:
    """The modules of a package."""

    def __init__(self, source: Path) -> None:
        """Read the package in the directory `source`."""
        self.scopes: dict[str, Scope] = {}
        for file in sorted([*source.rglob("*.py"), *source.rglob("*.pyi")]):
            parts = (source.name, *file.relative_to(source).with_suffix("").parts)
            is_package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if is_package else parts)
            scope = self.scopes.setdefault(module, Scope(file))
            _Reader(scope, module, is_package).visit(ast.parse(file.read_text()))

    def locate(
        self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> str | Path | None:
        """Return what a name of a module means: a module, the file that defines it, or None for a name
        outside this package.
        """
        if module not in self.scopes or (module, name) in seen:
            return None
        seen |= {(module, name)}
        if f"{module}.{name}" in self.scopes:
            return f"{module}.{name}"
        scope = self.scopes[module]
        if name in scope.defined:
            return scope.file
        for one in scope.imports.get(name, []):
            if (found := self._target(one, seen)) is not None:
                return found
        for star in scope.stars:
            if (found := self.locate(star.module, name, seen)) is not None:
                return found
        return None

    def _target(self, one: Import, seen: frozenset[tuple[str, str]] = frozenset()) -> str | Path | None:
        if one.module not in self.scopes:
            return None
        if one.name is None:
            return one.module
        # A name that is created at run time is taken as the module's own.
        return self.locate(one.module, one.name, seen) or self.scopes[one.module].file

    def _uses(self, scope: Scope) -> Iterator[tuple[Path, Use]]:
        for path, line in scope.mentions:
            name, rest = path[0], path[1:]
            if name in scope.defined and name not in scope.imports:
                continue
            found: str | Path | None = None
            for one in scope.imports.get(name, []):
                found = found or self._target(one)
            for star in scope.stars:
                found = found or self.locate(star.module, name)
            while isinstance(found, str) and rest:
                found, rest = self.locate(found, rest[0]) or self.scopes[found].file, rest[1:]
            if isinstance(found, str):
                # The module itself is used as a value.
                found = self.scopes[found].file
            if found is not None:
                yield found, Use(line, ".".join(path))

    def arrows(self) -> Arrows:
        """Return all uses of one file's names in another."""
        arrows = Arrows()
        for scope in self.scopes.values():
            arrows.uses.setdefault(scope.file, {})
            for used, use in self._uses(scope):
                arrows.add(scope.file, used, use)
        return arrows
