"""Plants the bugs of tests/mutants in a copy of the tree, and looks of each whether it is noticed.

    python3 tools/mutants.py [--of core|python|node] [--shard K/N] [--go-on] [--quick] [part of a name ...]

Most are compiled together, and take effect one after the other; the rest are planted one by one. With
--go-on those that were found before in the same tree are not planted again. Ends with `k of n found`, and
fails unless all are. What a patch is: tests/mutants/README.md.
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
"""How many bugs that were compiled together take effect at the same time, each in its own process."""


T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, str]:
    """What an action returns, and how long it took."""
    began = time.monotonic()
    return action(), f"{time.monotonic() - began:.0f} s"


def sound(mutants: list[Mutant]) -> dict[str, str]:
    """What is wrong with commands that fail, or test nothing, without any bug."""
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
    """Whether the tests that are named notice a bug that is planted; and a line of what they said."""
    (noticed, output), took = timed(lambda: notices(mutant))
    if noticed:
        return True, f"by {mutant.found_by} in {took}: {reason(output)}"
    return False, f"not by {mutant.found_by}\n{output}"


def by_simulation(mutant: Mutant, known: set[int]) -> tuple[bool, str]:
    """Whether the simulation notices a bug that is planted; and a line of what it said."""
    found, took = timed(lambda: failing_seed(mutant.seeds, known, mutant.kind))
    if found is not None:
        return True, f"by seed {found[0]} in {took}: {found[1]}"
    return False, f"not by the first {mutant.seeds} seeds"


@contextmanager
def alone(mutant: Mutant) -> Iterator[None]:
    """With this bug, and nothing else, in the copy."""
    try:
        apply(mutant)
        make(mutant.build, mutant.name)
        if mutant.seeds:
            make(SIMULATION, mutant.name)
        yield
    finally:
        remove(mutant)


def verdict(mutant: Mutant, known: set[int], number: int | None) -> tuple[str, str]:
    """What became of a bug, in a word and in more. A number chooses it among those that are planted."""
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
    """What became of each of these bugs, in a copy in which all of them, or none, are planted."""
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

    # Many are noticed by a test that waits in vain, and meanwhile takes no processor.
    with ThreadPoolExecutor(JOBS if mutants and mutants[0].name in numbers else 1) as pool:
        yield from pool.map(judged, mutants)


class Record:
    """Which bugs were found in this tree before."""

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
    """`2/3` is the second third."""
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text}: must be K/N, such as 1/3")
    return int(number), int(of)


def main(arguments: list[str]) -> int:
    """Plants the bugs that are asked for."""
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
    # What is built alike comes together.
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
