"""Puts many mutants of Rust functions into one tree, where a number chooses the one that takes effect.

A function's body is repeated for each of its mutants:

    fn f(&self) -> bool {
        if crate::planted::is(17) { return { self.a || self.b }; }
        if crate::planted::is(23) { return { true }; }
        self.a && self.b
    }

So a hundred mutants take one build. What is here only rewrites text; `sample_mutants.py` builds and runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[int, int]
"""A line and a column, both from 1, as compilers count them."""

TOKEN = re.compile(
    r"""
      //[^\n]* | /\*.*?\*/
    | \bb?r(?P<fence>\#*)".*?"(?P=fence)
    | "(?:\\.|[^"\\])*"
    | '(?:\\[^']+|\\'|[^\\'])'
    | (?P<mark>[{}()\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
"""Comments, strings and characters, in which brackets mean nothing; and brackets."""

SWITCH = """//! Which mutant takes effect: the one with the number in the environment. Generated.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{{AtomicBool, Ordering}};

static CHOSEN: OnceLock<usize> = OnceLock::new();
static REACHED: [AtomicBool; {size}] = [const {{ AtomicBool::new(false) }}; {size}];

/// Whether this one takes effect. Where none does, notes that a test has come by.
pub fn is(number: usize) -> bool {{
    let read = || std::env::var("ZKLOCK_MUTANT").ok()?.parse().ok();
    let chosen = *CHOSEN.get_or_init(|| read().unwrap_or(usize::MAX));
    if chosen == usize::MAX && !REACHED[number].swap(true, Ordering::Relaxed) {{
        note(number);
    }}
    chosen == number
}}

fn note(number: usize) {{
    let Some(path) = std::env::var_os("ZKLOCK_REACHED") else {{ return }};
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
    file.write_all(format!("{{number}}\\n").as_bytes()).expect("room in the file");
}}
"""


class UnsuitableError(Exception):
    """A mutant cannot be chosen by a number."""


@dataclass(frozen=True)
class Mutant:
    """A change of a function's text, as cargo-mutants proposes it."""

    file: str
    what: str
    """In the words of cargo-mutants, without the place."""
    returns: str
    function: tuple[Place, Place]
    span: tuple[Place, Place]
    replacement: str

    @staticmethod
    def read(entry: dict[str, Any]) -> Mutant:
        """From an entry of `cargo mutants --list --json`. One outside any function is unsuitable."""
        function = entry["function"]
        if function is None:
            raise UnsuitableError(entry["name"])
        what = entry["name"].split(": ", 1)[1]
        returns = function["return_type"]
        return Mutant(
            entry["file"],
            what,
            returns,
            places(function["span"]),
            places(entry["span"]),
            entry["replacement"],
        )

    def __str__(self) -> str:
        return f"{self.file}:{self.span[0][0]}: {self.what}"


def places(span: dict[str, dict[str, int]]) -> tuple[Place, Place]:
    """Where something begins, and where it has ended."""
    return (span["start"]["line"], span["start"]["column"]), (span["end"]["line"], span["end"]["column"])


class Source:
    """The text of a file, by lines and columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def at(self, place: Place) -> int:
        """The offset of a place."""
        return self.starts[place[0] - 1] + place[1] - 1

    def line(self, place: Place) -> str:
        """The line around a place, without its indentation."""
        return self.text[self.starts[place[0] - 1] : self.starts[place[0]] - 1].strip()

    def body(self, function: tuple[Place, Place]) -> tuple[int, int]:
        """Where what is between a function's outer braces begins and ends."""
        begin, end = map(self.at, function)
        depth = 0
        for token in TOKEN.finditer(self.text, begin, end):
            mark = token["mark"]
            if mark == "{" and depth == 0:
                return token.end(), end - 1
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(mark, 0)
        raise UnsuitableError(f"no body: {self.text[begin:end]}")


def outermost(functions: Iterable[tuple[Place, Place]]) -> list[tuple[Place, Place]]:
    """Those that are not within others: a function within another is mutated together with it."""
    found: list[tuple[Place, Place]] = []
    for function in sorted(set(functions), key=lambda span: (span[0], (-span[1][0], -span[1][1]))):
        if not found or found[-1][1] <= function[0]:
            found.append(function)
    return found


def returned(returns: str, body: str) -> str:
    """A body as a value that can be returned in one place of several. Types without a name are boxed."""
    if returns.startswith("-> impl Iterator"):
        return f"Box::new({{{body}\n}}) as Box<dyn Iterator<Item = _> + '_>"
    if returns.startswith("-> impl Future"):
        return f"Box::pin({{{body}\n}}) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>"
    return f"{{{body}\n}}"


def planted(text: str, mutants: dict[int, Mutant]) -> str:
    """The text of a file with all these mutants of it in it, by their numbers."""
    source = Source(text)
    for function in reversed(outermost(mutant.function for mutant in mutants.values())):
        begin, end = source.body(function)
        returns = ""
        variants = ""
        for number, mutant in mutants.items():
            if not function[0] <= mutant.function[0] < function[1]:
                continue
            if mutant.function == function:
                returns = mutant.returns
            start, stop = map(source.at, mutant.span)
            body = source.text[begin:start] + mutant.replacement + source.text[stop:end]
            value = returned(mutant.returns if mutant.function == function else "", body)
            variants += f"\nif crate::planted::is({number}) {{ /*{number}>*/ return {value}; /*<{number}*/ }}"
        original = source.text[begin:end]
        if returns.startswith("-> impl "):
            original = "\nreturn " + returned(returns, original) + ";"
        # A number from the environment is not known to the compiler.
        head = source.text[source.at(function[0]) : begin].replace("const fn ", "fn ", 1)
        text = text[: source.at(function[0])] + head + variants + original + text[end:]
    return text


def lines_of(text: str) -> dict[int, range]:
    """In which lines of a rewritten text each mutant is."""
    found: dict[int, range] = {}
    for begun in re.finditer(r"/\*(\d+)>\*/", text):
        number = begun[1]
        ended = text.index(f"/*<{number}*/", begun.end())
        found[int(number)] = range(text.count("\n", 0, begun.start()) + 1, text.count("\n", 0, ended) + 2)
    return found


def guilty(span: dict[str, Any], texts: dict[str, str]) -> Iterator[int]:
    """The mutants in which a place of a compiler's message is, through macros too."""
    for file, text in texts.items():
        if span["file_name"].endswith(file):
            for number, lines in lines_of(text).items():
                if span["line_start"] in lines and span["line_end"] in lines:
                    yield number
    if span.get("expansion"):
        yield from guilty(span["expansion"]["span"], texts)


def blamed(message: dict[str, Any], texts: dict[str, str]) -> set[int]:
    """Which mutants a compiler's message is about: where it points first, or else anywhere."""
    spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
    for span in spans:
        if found := set(guilty(span, texts)):
            return found
    notes = [blamed(child, texts) for child in message.get("children", [])]
    return set().union(*notes)
