"""Puts many mutants of Rust functions into one tree. A number selects the one that is enabled.

A function's body is repeated for each of its mutants:

    fn f(&self) -> bool {
        if crate::planted::is(17) { return { self.a || self.b }; }
        if crate::planted::is(23) { return { true }; }
        self.a && self.b
    }

A hundred mutants therefore need only one build. This module only rewrites text. `sample_mutants.py` builds
and runs the mutants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[int, int]
"""A line and a column, both counted from 1 as in compiler messages."""

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
"""Comments, strings and characters, in which brackets have no meaning; and brackets."""

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
    """A mutant cannot be selected by a number."""


@dataclass(frozen=True)
class Mutant:
    """A change of a function's text, as cargo-mutants proposes it."""

    file: str
    what: str
    """Description by cargo-mutants, without the place."""
    returns: str
    function: tuple[Place, Place]
    span: tuple[Place, Place]
    replacement: str

    @staticmethod
    def read(entry: dict[str, Any]) -> Mutant:
        """Read an entry of `cargo mutants --list --json`. A mutant outside any function is unsuitable."""
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
    """Return the start and the end of a span."""
    return (span["start"]["line"], span["start"]["column"]), (span["end"]["line"], span["end"]["column"])


class Source:
    """The text of a file, addressed by lines and columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def at(self, place: Place) -> int:
        """Return the offset of a place."""
        return self.starts[place[0] - 1] + place[1] - 1

    def line(self, place: Place) -> str:
        """Return the line around a place, without its indentation."""
        return self.text[self.starts[place[0] - 1] : self.starts[place[0]] - 1].strip()

    def body(self, function: tuple[Place, Place]) -> tuple[int, int]:
        """Return the start and the end of the text between a function's outer braces."""
        begin, end = map(self.at, function)
        depth = 0
        for token in TOKEN.finditer(self.text, begin, end):
            mark = token["mark"]
            if mark == "{" and depth == 0:
                return token.end(), end - 1
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(mark, 0)
        raise UnsuitableError(f"no body: {self.text[begin:end]}")


def outermost(functions: Iterable[tuple[Place, Place]]) -> list[tuple[Place, Place]]:
    """Return the functions that are not inside other ones. An inner function is mutated together with its
    outer one.
    """
    found: list[tuple[Place, Place]] = []
    for function in sorted(set(functions), key=lambda span: (span[0], (-span[1][0], -span[1][1]))):
        if not found or found[-1][1] <= function[0]:
            found.append(function)
    return found


def returned(returns: str, body: str) -> str:
    """Return a body as a value that can be returned from one of several places. Types without a name are
    boxed.
    """
    if returns.startswith("-> impl Iterator"):
        return f"Box::new({{{body}\n}}) as Box<dyn Iterator<Item = _> + '_>"
    if returns.startswith("-> impl Future"):
        return f"Box::pin({{{body}\n}}) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>"
    return f"{{{body}\n}}"


def planted(text: str, mutants: dict[int, Mutant]) -> str:
    """Return the text of a file with all these mutants, by number."""
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
        # The compiler does not know the number from the environment, so the function cannot be const.
        head = source.text[source.at(function[0]) : begin].replace("const fn ", "fn ", 1)
        text = text[: source.at(function[0])] + head + variants + original + text[end:]
    return text


def lines_of(text: str) -> dict[int, range]:
    """Return the lines of each mutant in a rewritten text."""
    found: dict[int, range] = {}
    for begun in re.finditer(r"/\*(\d+)>\*/", text):
        number = begun[1]
        ended = text.index(f"/*<{number}*/", begun.end())
        found[int(number)] = range(text.count("\n", 0, begun.start()) + 1, text.count("\n", 0, ended) + 2)
    return found


def guilty(span: dict[str, Any], texts: dict[str, str]) -> Iterator[int]:
    """Yield the mutants that contain a place of a compiler message. Macro expansions are followed."""
    for file, text in texts.items():
        if span["file_name"].endswith(file):
            for number, lines in lines_of(text).items():
                if span["line_start"] in lines and span["line_end"] in lines:
                    yield number
    if span.get("expansion"):
        yield from guilty(span["expansion"]["span"], texts)


def blamed(message: dict[str, Any], texts: dict[str, str]) -> set[int]:
    """Return the mutants that a compiler message is about: those at its primary place,
    or else at any place.
    """
    spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
    for span in spans:
        if found := set(guilty(span, texts)):
            return found
    notes = [blamed(child, texts) for child in message.get("children", [])]
    return set().union(*notes)
