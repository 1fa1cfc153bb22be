"""Plants many bugs of tests/mutants together: each is an alternative body of its function, and a number
selects one.

One build serves all of them, because a build for each would take most of the time. A bug that changes more
than one Rust function, or something outside functions, is planted separately. So is a bug that does not
compile with the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import schemata
from mutant import Mutant, StaleError
from planting import BUILD_LIMIT, CHOSEN, SIMULATION, TREE, apply, copy_tree, execute, make, remove
from suites import ROOT

SYNTAX = re.compile(rf"{schemata.TOKEN.pattern} | \bfn\s+(?P<name>\w+) | (?P<end>;)", re.VERBOSE | re.DOTALL)

CHECK = "cargo build --locked --quiet --workspace --lib --message-format=json"
"""A command that builds the crates of the bindings and reports the place of each error."""


def functions(text: str) -> list[tuple[int, int, int]]:
    """Return the start of each function, its body, and its closing brace. Outer functions come before inner
    ones.
    """
    found = []
    opened: list[tuple[int, int] | None] = []
    awaited: list[tuple[int, int]] = []
    for token in SYNTAX.finditer(text):
        mark = token["mark"] or token["end"] or ""
        here = bool(awaited) and awaited[-1][1] == len(opened)
        if token["name"]:
            awaited.append((token.start(), len(opened)))
        elif mark and mark in "([{":
            opened.append((awaited.pop()[0], token.end()) if here and mark == "{" else None)
        elif mark == ";" and here:
            awaited.pop()
        elif mark and mark in ")]}":
            begun = opened.pop()
            if begun is not None:
                found.append((*begun, token.start()))
    return sorted(found)


def difference(old: str, new: str) -> tuple[int, int, str]:
    """Return the replaced part of the old text and its replacement."""
    both = enumerate(zip(old, new, strict=False))
    begin = next((at for at, (a, b) in both if a != b), min(len(old), len(new)))
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    return begin, len(old) - end, new[begin : len(new) - end]


def place(text: str, offset: int) -> schemata.Place:
    """Return the line and the column of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def switched(file: str, name: str, old: str, new: str) -> schemata.Mutant | None:
    """Return a change of a file as a change of a single function, or None if it changes more than that."""
    begin, end, replacement = difference(old, new)
    for start, body, close in functions(old):
        if body <= begin and end <= close:
            returns = re.search(r"\)\s*(-> impl .*?)\s*\{\Z", old[start:body], re.DOTALL)
            whole = place(old, old.rfind("\n", 0, start) + 1), place(old, close + 1)
            span = place(old, begin), place(old, end)
            return schemata.Mutant(file, name, returns[1] if returns else "", whole, span, replacement)
    return None


def read(mutant: Mutant) -> schemata.Mutant | None:
    """Return a bug as the change of a Rust function, or None."""
    if len(mutant.files) != 1 or not mutant.files[0].endswith(".rs"):
        return None
    (file,) = mutant.files
    try:
        apply(mutant)
        return switched(file, mutant.name, (ROOT / file).read_text(), (TREE / file).read_text())
    except StaleError:
        # The error is reported when the bug is planted separately.
        return None
    finally:
        remove(mutant)


def sources(file: str) -> Path:
    """Return the source folder of a file's crate: `src`, or `native` in the Node package."""
    return next(parent for parent in Path(file).parents if (ROOT / parent / "lib.rs").is_file())


def texts(chosen: dict[int, schemata.Mutant]) -> dict[str, str]:
    """Return the changed files with all these bugs."""
    found = {}
    for file in {one.file for one in chosen.values()}:
        own = {number: one for number, one in chosen.items() if one.file == file}
        found[file] = schemata.planted((ROOT / file).read_text(), own)
    for home in {sources(one.file) for one in chosen.values()}:
        library, manifest = str(home / "lib.rs"), str(home.parent / "Cargo.toml")
        found[str(home / "planted.rs")] = schemata.SWITCH.format(size=max(chosen) + 1)
        text = found.get(library) or (ROOT / library).read_text()
        found[library] = f"{text}\n#[doc(hidden)]\npub mod planted;\n"
        # Copied code violates lints.
        found[manifest] = (ROOT / manifest).read_text().replace("[lints]\nworkspace = true\n", "")
    return found


def write(chosen: dict[int, schemata.Mutant]) -> dict[str, str]:
    """Plant only these bugs in the copy. Return the written files."""
    written = texts(chosen)
    # Unchanged files keep their date, because cargo would compile them again.
    copy_tree(but=set(written))
    for name, text in written.items():
        if not (TREE / name).is_file() or (TREE / name).read_text() != text:
            (TREE / name).write_text(text)
    return written


def guilty(written: dict[str, str]) -> set[int]:
    """Return the bugs that do not compile."""
    _, output = execute(CHECK, BUILD_LIMIT)
    found: set[int] = set()
    for line in output.splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        message = entry.get("message") if entry.get("reason") == "compiler-message" else None
        if message and message["level"] == "error" and message["spans"]:
            found |= schemata.blamed(message, written)
    return found


def builds(mutants: list[Mutant]) -> list[str]:
    """Return the commands that compile the tests of all these bugs."""
    needed = {one.build for one in mutants if one.build is not None}
    return sorted(needed) + ([SIMULATION] if any(one.seeds for one in mutants) else [])


def plant(mutants: list[Mutant]) -> dict[str, int]:
    """Plant and build all bugs that can be planted together. Return the number of each by name."""
    # A workspace that includes files by their paths has no module for the lookup of numbers.
    here = {number: one for number, one in enumerate(mutants) if "--manifest-path" not in (one.build or "")}
    switches = {number: switch for number, one in here.items() if (switch := read(one)) is not None}
    while len(switches) > 1:
        written = write(switches)
        try:
            for build in builds([mutants[number] for number in switches]):
                make(build, "all together")
        except StaleError as stale:
            blamed = guilty(written) & switches.keys()
            if not blamed:
                print(f"not together, as nobody is to blame: {stale}", flush=True)
                break
            for number in blamed:
                print(f"by itself: {mutants[number].name} does not compile with the others", flush=True)
                del switches[number]
        else:
            return {mutants[number].name: number for number in switches}
    copy_tree()
    return {}


@contextmanager
def chosen(number: int) -> Iterator[None]:
    """Enable this bug for the commands of this thread, in a copy with several bugs."""
    token = CHOSEN.set(number)
    try:
        yield
    finally:
        CHOSEN.reset(token)
