"""Copies the docstrings of the extension module into its stub. Run this file to update the stub."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from zklock import _zklock

STUB = Path(__file__).resolve().parent.parent / "python" / "zklock" / "_zklock.pyi"

Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def rewritten(stub: str) -> str:
    """Return the stub with the docstrings of the module."""
    lines = stub.splitlines()
    # From the end, so that line numbers stay valid.
    for node, doc in reversed(list(_documented(ast.parse(stub)))):
        indent = " " * (0 if isinstance(node, ast.Module) else node.col_offset + 4)
        new = _literal(doc, indent)
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            begin = first.lineno - 1
            # An ellipsis can be on the line of the signature.
            if isinstance(first.value.value, str):
                lines[begin : first.end_lineno] = new
                continue
            lines[begin] = lines[begin].removesuffix(" ...")
            lines[begin + 1 : begin + 1] = new
        else:
            lines[first.lineno - 1 : first.lineno - 1] = [*new, ""]
    return "\n".join(lines) + "\n"


def _documented(module: ast.Module) -> list[tuple[Documented, str]]:
    """Yield the module, its public functions, and its classes with their non-special members, in order."""
    found: list[tuple[Documented, str]] = [(module, _doc(_zklock))]
    for item in module.body:
        if isinstance(item, ast.FunctionDef) and ast.get_docstring(item):
            # The package's private functions have no docstring in the stub.
            found.append((item, _doc(getattr(_zklock, item.name))))
        if not isinstance(item, ast.ClassDef) or item.name.startswith("_"):
            # Skip the class: a protocol for type checkers does not exist at run time.
            continue
        found.append((item, _doc(getattr(_zklock, item.name))))
        for member in (node for node in item.body if isinstance(node, ast.FunctionDef)):
            if not member.name.startswith("_"):
                found.append((member, _doc(getattr(getattr(_zklock, item.name), member.name))))
    return found


def _doc(item: object) -> str:
    return inspect.getdoc(item) or ""


def _literal(doc: str, indent: str) -> list[str]:
    summary, *rest = doc.splitlines()
    if not rest:
        return [f'{indent}"""{summary}"""']
    return [f'{indent}"""{summary}', *(f"{indent}{line}".rstrip() for line in rest), f'{indent}"""']


if __name__ == "__main__":
    STUB.write_text(rewritten(STUB.read_text()))
