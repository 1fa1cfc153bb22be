"""Plants the bugs of tests/mutants in a copy of the tree and checks that each is noticed.

    python3 tools/mutants.py [--of core|python|node] [--shard K/N] [--go-on] [--quick] [part of a name ...]

Most bugs are compiled together and then enabled one at a time. The others are planted one by one. With
--go-on, bugs that were found before in the same tree are skipped. The last line is `k of n found`. The
program fails unless all are found. tests/mutants/README.md describes the patches.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mutant import PARTS, Mutant, StaleError, patches
from planting import (
    HOME,
    SIMULATION,
    apply,
    check,
    copy_tree,
    failing_seed,
    failing_without_bugs,
    fingerprint,
    make,
    notices,
    pass_at_once,
    reason,
    remove,
)
from together import chosen, plant

RECORD = HOME / "found.json"

JOBS = max(2, os.cpu_count() or 2)
"""Number of bugs from one build that run in parallel, each in its own process."""


T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, str]:
    """Return the result of an action, and its duration."""
    began = time.monotonic()
    return action(), f"{time.monotonic() - began:.0f} s"


def sound(mutants: list[Mutant]) -> dict[str, str]:
    """Return the problems of commands that fail or test nothing even without a bug."""
    wrong: dict[str, str] = {}
    commands = {one.command: one.build for one in mutants if one.command is not None}
    for build in sorted(set(commands.values()), key=str):
        own = sorted(command for command in commands if commands[command] == build)
        try:
            make(build, "without any bug")
        except StaleError as stale:
            wrong |= dict.fromkeys(own, str(stale))
            continue
        for command in own if own and not pass_at_once(own) else []:
            try:
                check(command)
            except StaleError as stale:
                wrong[command] = str(stale)
    return wrong


def by_command(mutant: Mutant) -> tuple[bool, str]:
    """Return whether the named tests notice a planted bug, with a line of their output."""
    (noticed, output), took = timed(lambda: notices(mutant))
    if noticed:
        return True, f"by {mutant.found_by} in {took}: {reason(output)}"
    return False, f"not by {mutant.found_by}\n{output}"


def by_simulation(mutant: Mutant, known: set[int]) -> tuple[bool, str]:
    """Return whether the simulation notices a planted bug, with a line of its output."""
    found, took = timed(lambda: failing_seed(mutant.seeds, known, mutant.kind))
    if found is not None:
        return True, f"by seed {found[0]} in {took}: {found[1]}"
    return False, f"not by the first {mutant.seeds} seeds"


@contextmanager
def alone(mutant: Mutant) -> Iterator[None]:
    """Run the block with only this bug planted in the copy."""
    try:
        apply(mutant)
        make(mutant.build, mutant.name)
        if mutant.seeds:
            make(SIMULATION, mutant.name)
        yield
    finally:
        remove(mutant)


def verdict(mutant: Mutant, known: set[int], number: int | None) -> tuple[str, str]:
    """Return the verdict about a bug as a word, with details. A number selects the bug among those that are
    compiled together.
    """
    told = []
    try:
        with alone(mutant) if number is None else chosen(number):
            if mutant.command is not None:
                told.append(by_command(mutant))
            if mutant.seeds:
                told.append(by_simulation(mutant, known))
    except StaleError as stale:
        return "ERROR", str(stale)
    more = "; ".join(line for _, line in told)
    return ("found", more) if all(found for found, _ in told) else ("NOT FOUND", f"{mutant.promise}: {more}")


def verdicts(mutants: list[Mutant], numbers: dict[str, int]) -> Iterator[tuple[Mutant, str, str]]:
    """Yield the verdict about each bug. In the copy, either all of them are compiled in, or none."""
    wrong = sound(mutants)
    known: dict[str, set[int]] = {}
    for kind in sorted({one.kind for one in mutants if one.seeds}):
        known[kind] = failing_without_bugs(max(one.seeds for one in mutants if one.kind == kind), kind)
        if known[kind]:
            shown = ", ".join(map(str, sorted(known[kind])))
            print(f"seeds that fail without any bug, and count for none ({kind}): {shown}")

    def judged(mutant: Mutant) -> tuple[Mutant, str, str]:
        problem = wrong.get(mutant.command or "")
        number = numbers.get(mutant.name)
        result = (
            ("ERROR", problem)
            if problem is not None
            else verdict(mutant, known.get(mutant.kind, set()), number)
        )
        return mutant, *result

    # A bug is often noticed by a test that waits in vain, which uses no processor time.
    with ThreadPoolExecutor(JOBS if mutants and mutants[0].name in numbers else 1) as pool:
        yield from pool.map(judged, mutants)


class Record:
    """The bugs that were found earlier in this tree."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path = path
        self._tree = tree
        try:
            self._found: dict[str, str] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._found = {}

    def _key(self, mutant: Mutant) -> str:
        return hashlib.sha256(f"{self._tree} {mutant}".encode()).hexdigest()

    def __contains__(self, mutant: Mutant) -> bool:
        return self._found.get(mutant.name) == self._key(mutant)

    def add(self, mutant: Mutant) -> None:
        self._found[mutant.name] = self._key(mutant)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._found, indent=0))


def shard(text: str) -> tuple[int, int]:
    """Parse K/N: `2/3` is the second third."""
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text}: must be K/N, such as 1/3")
    return int(number), int(of)


def main(arguments: list[str]) -> int:
    """Plant the requested bugs."""
    parser = argparse.ArgumentParser(prog="mutants.py")
    parser.add_argument("names", nargs="*", metavar="part of a name")
    parser.add_argument("--of", choices=PARTS)
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="K/N")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="without the simulation, and what only that is to notice"
    )
    wanted = parser.parse_args(arguments)
    try:
        mutants = [Mutant.read(path) for path in patches(wanted.names)]
    except StaleError as stale:
        print(stale, file=sys.stderr)
        return 1
    # Sort bugs with the same build together.
    mutants = [one for one in mutants if wanted.of in (None, one.part)][
        wanted.shard[0] - 1 :: wanted.shard[1]
    ]
    mutants.sort(key=lambda one: (PARTS.index(one.part), one.build or "", one.name))
    if wanted.quick:
        mutants = [replace(one, seeds=0) for one in mutants if one.command is not None]
    record = Record(RECORD, fingerprint())
    before = [one for one in mutants if wanted.go_on and one in record]
    rest = [one for one in mutants if one not in before]
    copy_tree()
    numbers = plant(rest)
    found = len(before)
    for where in (True, False):
        if not where:
            copy_tree()
        for mutant, word, more in verdicts([one for one in rest if (one.name in numbers) is where], numbers):
            if word == "found":
                found += 1
                record.add(mutant)
            print(f"{word:9} {mutant.name} {more}", flush=True)
    print(f"{found} of {len(mutants)} found" + (f" ({len(before)} of them before)" if before else ""))
    return 0 if found == len(mutants) and mutants else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
