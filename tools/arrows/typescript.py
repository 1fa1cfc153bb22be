"""Arrows between the files of a TypeScript directory, from their text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from arrows.graph import Arrows, Use

_TOKEN = re.compile(
    r"""
      (?P<gap>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<template>`)
    | (?P<word>[\#@]?[A-Za-z_$][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<sign>\.\.\.|=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_DECLARATION = {"class", "function", "const", "let", "var", "interface", "type", "enum", "namespace"}
_BEFORE_DECLARATION = {"declare", "abstract", "async", "default", "const"}


@dataclass(frozen=True)
class Token:
    """A word, a sign, or a string with its quotes."""

    text: str
    line: int

    @property
    def is_word(self) -> bool:
        """Return whether the token can be a name."""
        return self.text[0].isalpha() or self.text[0] in "_$"


def tokens(source: str, line: int = 1) -> list[Token]:
    """Return the words, signs and strings of a source, without comments. Only the inserted expressions of a
    template count.
    """
    found: list[Token] = []
    position = 0
    while position < len(source):
        # After a value, a slash means division. Otherwise it begins a regular expression.
        is_operand = bool(found) and (
            found[-1].is_word or found[-1].text in ")]}" or found[-1].text[0].isdigit()
        )
        match = _REGEX.match(source, position) if source[position] == "/" and not is_operand else None
        if match and source[position : position + 2] not in {"//", "/*"}:
            position = match.end()
            found.append(Token("''", line))
            continue
        match = _TOKEN.match(source, position)
        assert match is not None
        end = match.end()
        if match.lastgroup == "template":
            end = _template(source, end, line, found)
        elif match.lastgroup != "gap":
            found.append(Token(match[0], line))
        line += source.count("\n", position, end)
        position = end
    return found


def _template(source: str, at: int, line: int, found: list[Token]) -> int:
    start = at
    while source[at] != "`":
        if source[at] == "\\":
            at += 2
        elif source.startswith("${", at):
            depth, begin = 1, at + 2
            at = begin
            while depth:
                depth += {"{": 1, "}": -1}.get(source[at], 0)
                at += 1
            found.extend(tokens(source[begin : at - 1], line + source.count("\n", start, begin)))
        else:
            at += 1
    return at + 1


@dataclass(frozen=True)
class Import:
    """A name of another file; `*` means the whole file."""

    file: Path
    name: str
    line: int


@dataclass
class Scope:
    """A file with its imports, exports and mentioned names."""

    file: Path
    imports: dict[str, Import] = field(default_factory=dict)
    exports: dict[str, Import] = field(default_factory=dict)
    stars: list[Import] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    # Names in the code, with the member after the dot, if any.
    mentions: list[tuple[str, str | None, int]] = field(default_factory=list)
    # Files that are used as a whole: imported for their side effects or by a call.
    whole: list[Import] = field(default_factory=list)


class Directory:
    """The files of a directory."""

    def __init__(self, source: Path) -> None:
        self.scopes = {
            file: Scope(file) for file in sorted(source.rglob("*.ts")) if not file.name.endswith(".d.ts")
        }
        for scope in self.scopes.values():
            self._read(scope, tokens(scope.file.read_text()))

    def _file(self, scope: Scope, quoted: str) -> Path | None:
        name = quoted[1:-1]
        if not name.startswith("."):
            return None
        plain = (scope.file.parent / re.sub(r"\.[cm]?js$", "", name)).resolve()
        for path in (plain.with_name(plain.name + ".ts"), plain / "index.ts", plain):
            if path in self.scopes:
                return path
        return None

    @staticmethod
    def _names(text: list[Token], at: int) -> tuple[list[tuple[str, str, int]], int]:
        # Parses `{ a, type b as c }` from its first brace into pairs of the exported name and the local name.
        found = []
        at += 1
        while text[at].text != "}":
            if text[at].text == "type" and text[at + 1].text not in {",", "}", "as"}:
                at += 1
            name = alias = text[at].text
            line = text[at].line
            if text[at + 1].text == "as":
                alias = text[at + 2].text
                at += 2
            found.append((name, alias, line))
            at += 1
            if text[at].text == ",":
                at += 1
        return found, at + 1

    def _read(self, scope: Scope, text: list[Token]) -> None:
        at = 0
        while at < len(text):
            word = text[at].text
            follower = text[at + 1].text if at + 1 < len(text) else ""
            after_dot = at > 0 and text[at - 1].text == "."
            if word in {"import", "require"} and follower == "(" and text[at + 2].text[0] in "'\"":
                if file := self._file(scope, text[at + 2].text):
                    name = text[at + 5].text if text[at + 4].text == "." else "*"
                    scope.whole.append(Import(file, name, text[at].line))
                at += 4
            elif word == "import" and not after_dot and follower != ".":
                at = self._read_import(scope, text, at + 1)
            elif word == "export" and not after_dot:
                at = self._read_export(scope, text, at + 1)
            else:
                if text[at].is_word and not after_dot:
                    member = text[at + 2].text if follower == "." else None
                    scope.mentions.append((word, member, text[at].line))
                at += 1

    def _read_import(self, scope: Scope, text: list[Token], at: int) -> int:
        names: list[tuple[str, str, int]] = []
        if text[at].text == "type" and text[at + 1].text not in {"from", ",", "="}:
            at += 1
        if text[at].is_word and text[at + 1].text == "=":
            # `import x = require('y')`
            names, at = [("*", text[at].text, text[at].line)], at + 4
        while text[at].text[0] not in "'\"":
            if text[at].text == "{":
                more, at = self._names(text, at)
                names += more
            elif text[at].text == "*":
                names.append(("*", text[at + 2].text, text[at].line))
                at += 3
            else:
                if text[at].text not in {"from", ","}:
                    names.append(("default", text[at].text, text[at].line))
                at += 1
        if file := self._file(scope, text[at].text):
            for name, alias, line in names:
                scope.imports[alias] = Import(file, name, line)
            if not names:
                scope.whole.append(Import(file, "*", text[at].line))
        return at + 1

    def _read_export(self, scope: Scope, text: list[Token], at: int) -> int:
        start = at
        if text[at].text == "type" and text[at + 1].text in {"{", "*"}:
            at += 1
        if text[at].text == "*":
            space = text[at + 2].text if text[at + 1].text == "as" else None
            at += 2 if space is None else 4
            if file := self._file(scope, text[at].text):
                if space is None:
                    scope.stars.append(Import(file, "*", text[at].line))
                else:
                    scope.exports[space] = Import(file, "*", text[at].line)
            return at + 1
        if text[at].text == "{":
            names, at = self._names(text, at)
            if at < len(text) and text[at].text == "from":
                file = self._file(scope, text[at + 1].text)
                at += 2
                for name, alias, line in names:
                    if file:
                        scope.exports[alias] = Import(file, name, line)
            else:
                for name, alias, line in names:
                    scope.exports[alias] = scope.imports.get(name, Import(scope.file, name, line))
            return at
        while text[at].text in _BEFORE_DECLARATION and text[at + 1].is_word:
            if text[at].text == "default":
                scope.defined.add("default")
            at += 1
        if text[at].text in _DECLARATION or text[at - 1].text == "const":
            scope.defined.add(text[at + (1 if text[at].text in _DECLARATION else 0)].text)
        return start

    def locate(self, file: Path, name: str, seen: frozenset[tuple[Path, str]] = frozenset()) -> Path | None:
        """Return the file that defines a name which another file exports."""
        if (file, name) in seen:
            return None
        seen |= {(file, name)}
        scope = self.scopes[file]
        if name in scope.defined or name == "*":
            return file
        if (one := scope.exports.get(name)) is not None:
            return one.file if one.file == file else self.locate(one.file, one.name, seen)
        for star in scope.stars:
            if (found := self.locate(star.file, name, seen)) is not None:
                return found
        return None

    def arrows(self) -> Arrows:
        """Return all uses of one file's names in another, as a value or as a type."""
        arrows = Arrows()
        for file, scope in self.scopes.items():
            arrows.uses.setdefault(file, {})
            for one in scope.whole:
                arrows.add(file, self.locate(one.file, one.name) or one.file, Use(one.line, one.name))
            for name, member, line in scope.mentions:
                if (imported := scope.imports.get(name)) is not None:
                    wanted = member if imported.name == "*" and member else imported.name
                    used = self.locate(imported.file, wanted) or imported.file
                    arrows.add(file, used, Use(line, name))
        return arrows
