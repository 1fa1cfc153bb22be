"""Arrows between the files of a Rust crate, from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from arrows.graph import Arrows, Use

Module = tuple[str, ...]
"""A module's path from the crate's root."""

_TOKEN = re.compile(
    r"""
      (?P<gap>\s+|//[^\n]*)
    | (?P<comment>/\*)
    | (?P<raw>(?:br|cr|r)(?P<hashes>\#*)")
    | (?P<string>[bc]?"(?:[^"\\]|\\.)*")
    | (?P<char>b?'(?:[^'\\\n]|\\(?:u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}|.))')
    | (?P<lifetime>'[A-Za-z_]\w*)
    | (?P<number>\d[\w.]*?(?=\.\.|[^\w.]|$))
    | (?P<word>(?:r\#)?[A-Za-z_]\w*)
    | (?P<sign>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ITEMS = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
_BEFORE_FN = {"const", "unsafe", "async", "extern"}


@dataclass(frozen=True)
class Token:
    """A word, or a sign that matters here."""

    text: str
    line: int

    @property
    def is_word(self) -> bool:
        """Return whether the token can be a name."""
        return self.text[0].isalpha() or self.text[0] == "_"


def tokens(source: str) -> list[Token]:
    """Return the words and signs of a source without comments. Each literal becomes a `"`."""
    found = []
    position, line = 0, 1
    while position < len(source):
        match = _TOKEN.match(source, position)
        assert match is not None
        end, kind = match.end(), match.lastgroup
        if kind == "hashes":
            kind = "raw"
        if kind == "comment":
            depth = 1
            while depth and end < len(source):
                inner = re.compile(r"/\*|\*/").search(source, end)
                end = inner.end() if inner else len(source)
                depth += (1 if inner[0] == "/*" else -1) if inner else 0
        elif kind == "raw":
            end = source.index('"' + match["hashes"], end) + 1 + len(match["hashes"])
            found.append(Token('"', line))
        elif kind in {"string", "char", "number"}:
            found.append(Token('"', line))
        elif kind in {"word", "sign"}:
            found.append(Token(match[0].removeprefix("r#"), line))
        line += source.count("\n", position, end)
        position = end
    return found


@dataclass(frozen=True)
class Import:
    """One leaf of a `use`: its path, its local name, and whether it is re-exported."""

    path: tuple[str, ...]
    alias: str
    line: int
    public: bool

    @property
    def is_glob(self) -> bool:
        """Return whether it imports all names of its path."""
        return self.alias == "*"


@dataclass
class Scope:
    """A module with its definitions, imports and mentioned names."""

    file: Path
    defined: set[str] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    # Paths in code, with one or more segments.
    mentions: list[tuple[tuple[str, ...], int]] = field(default_factory=list)

    def imported(self, name: str) -> Iterator[Import]:
        """Yield the imports with this local name."""
        return (one for one in self.imports if one.alias == name)


class Crate:
    """The modules of a crate."""

    def __init__(self, source: Path) -> None:
        self.scopes: dict[Module, Scope] = {}
        self.macros: dict[str, Path] = {}
        for file in sorted(source.rglob("*.rs")):
            parts = file.relative_to(source).with_suffix("").parts
            module = parts[:-1] if parts[-1] in {"lib", "main", "mod"} else parts
            self.scopes[module] = Scope(file)
            self._read(module, tokens(file.read_text()))

    def _read(self, module: Module, text: list[Token]) -> None:
        inside = [(module, -1)]  # Open modules, each with the depth at which it ends.
        depth, at = 0, 0
        while at < len(text):
            here, word = inside[-1][0], text[at].text
            scope = self.scopes[here]
            follower = text[at + 1].text if at + 1 < len(text) else ""
            if word == "{":
                depth += 1
            elif word == "}":
                depth -= 1
                if depth == inside[-1][1]:
                    inside.pop()
            elif word == "use" and follower != "<":  # `use<'a>` is a bound.
                at = self._read_use(scope, text, at)
            elif word == "mod" and text[at + 2].text == "{":
                child = (*here, follower)
                self.scopes[child] = Scope(scope.file)
                inside.append((child, depth))
                at += 1
            elif word == "mod" and text[at + 2].text == ";":
                at += 2
            elif word == "macro_rules":
                self.macros[text[at + 2].text] = scope.file
                at += 2
            elif word in _ITEMS and follower not in _BEFORE_FN | {"fn"} and text[at + 1].is_word:
                name = text[at + 2].text if follower == "mut" else follower
                # Items of a module are one level deeper than the module.
                if depth == inside[-1][1] + 1:
                    scope.defined.add(name)
                at += 1
            elif text[at].is_word and text[at - 1].text != "." and not (at and text[at - 1].text == "::"):
                path, line = [word], text[at].line
                while at + 2 < len(text) and text[at + 1].text == "::" and text[at + 2].is_word:
                    at += 2
                    path.append(text[at].text)
                scope.mentions.append((tuple(path), line))
            at += 1

    @staticmethod
    def _read_use(scope: Scope, text: list[Token], at: int) -> int:
        # Preceded by `pub` or `pub(…)`.
        public = text[at - 1].text == "pub" or (
            text[at - 1].text == ")" and any(token.text == "pub" for token in text[max(at - 6, 0) : at - 2])
        )

        def leaf(path: tuple[str, ...], alias: str, line: int) -> None:
            if path[-1] == "self":
                path = path[:-1]
                alias = path[-1] if alias == "self" else alias
            scope.imports.append(Import(path, alias, line, public))

        def tree(at: int, prefix: tuple[str, ...]) -> int:
            path = prefix
            while True:
                token = text[at]
                if token.text == "{":
                    at += 1
                    while text[at].text != "}":
                        at = tree(at, path)
                        if text[at].text == ",":
                            at += 1
                    return at + 1
                if token.text == "*":
                    scope.imports.append(Import(path, "*", token.line, public))
                    return at + 1
                if token.text == "::":
                    at += 1
                    continue
                path = (*path, token.text)
                at += 1
                if text[at].text == "as":
                    leaf(path, text[at + 1].text, token.line)
                    return at + 2
                if text[at].text != "::":
                    leaf(path, path[-1], token.line)
                    return at

        return tree(at + 1, ())

    def locate(
        self, here: Module, path: tuple[str, ...], seen: frozenset[object] = frozenset()
    ) -> Module | Path | None:
        """Return what a path means in a module: a module, the file that defines it, or None for a name
        outside this crate.
        """
        if (here, path) in seen:
            return None
        seen |= {(here, path)}
        first, rest = path[0], path[1:]
        if first == "crate":
            return self._walk((), rest, seen)
        if first == "self":
            return self._walk(here, rest, seen)
        if first == "super":
            return self._walk_up(here[:-1], rest, seen)
        found = self._member(here, first, seen)
        return self._walk(found, rest, seen) if isinstance(found, tuple) else found

    def _walk_up(
        self, module: Module, path: tuple[str, ...], seen: frozenset[object]
    ) -> Module | Path | None:
        while path and path[0] == "super":
            module, path = module[:-1], path[1:]
        return self._walk(module, path, seen)

    def _walk(self, module: Module, path: tuple[str, ...], seen: frozenset[object]) -> Module | Path | None:
        while path:
            found = self._member(module, path[0], seen)
            if not isinstance(found, tuple):
                # A name that a macro might have created is taken as the module's own.
                return found or self.scopes[module].file
            module, path = found, path[1:]
        return module

    def _member(self, module: Module, name: str, seen: frozenset[object]) -> Module | Path | None:
        if (*module, name) in self.scopes:
            return (*module, name)
        scope = self.scopes[module]
        if name in scope.defined:
            return scope.file
        for one in scope.imported(name):
            # Without the `seen` check, `use foo::foo` of another crate would look up itself.
            if (found := self.locate(module, one.path, seen)) is not None:
                return found
        for one in scope.imports:
            if one.is_glob and (module, one, name) not in seen:
                target = self.locate(module, one.path, seen | {(module, one, name)})
                if isinstance(target, tuple):
                    found = self._member(target, name, seen | {(module, one, name)})
                    if found is not None:
                        return found
        return None

    def arrows(self) -> Arrows:
        """Return all uses of one file's names in another."""
        arrows = Arrows()
        for module, scope in self.scopes.items():
            arrows.uses.setdefault(scope.file, {})
            for one in scope.imports:
                if not one.is_glob and not one.public:
                    self._point(arrows, module, one.path, one.line)
            for path, line in scope.mentions:
                self._point(arrows, module, path, line)
                if len(path) == 1 and path[0] in self.macros:
                    arrows.add(scope.file, self.macros[path[0]], Use(line, path[0]))
        return arrows

    def _point(self, arrows: Arrows, module: Module, path: tuple[str, ...], line: int) -> None:
        found = self.locate(module, path)
        # A module alone is not a use. The name that is used from it follows.
        if isinstance(found, Path):
            arrows.add(self.scopes[module].file, found, Use(line, "::".join(path)))
