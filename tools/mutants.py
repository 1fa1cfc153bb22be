"""Plants the bugs of tests/mutants, one by one, in a copy of the tree, and looks whether they are noticed.

    python3 tools/mutants.py [--of core|python|node] [--shard K/N] [--go-on] [part of a name ...]

With --go-on those that were found before in the same tree are not planted again. Ends with `k of n found`,
and fails unless all are. What a patch is: tests/mutants/README.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable
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
    reason,
    remove,
)

RECORD = HOME / "found.json"


T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, str]:
    """What an action returns, and how long it took."""
    began = time.monotonic()
    return action(), f"{time.monotonic() - began:.0f} s"


def sound(mutants: list[Mutant]) -> dict[str, str]:
    """What is wrong with commands that fail without any bug: together, as that is compiled once."""
    wrong: dict[str, str] = {}
    for command, build in sorted(
        (one.command, one.build or "") for one in mutants if one.command is not None
    ):
        try:
            if command not in wrong:
                wrong[command] = ""
                check(command, build or None)
        except StaleError as stale:
            wrong[command] = str(stale)
    return {command: problem for command, problem in wrong.items() if problem}


def by_command(mutant: Mutant) -> tuple[bool, str]:
    """Whether the tests that are named notice a bug that is planted; and a line of what they said."""
    (noticed, output), took = timed(lambda: notices(mutant))
    if noticed:
        return True, f"by {mutant.found_by} in {took}: {reason(output)}"
    return False, f"not by {mutant.found_by}\n{output}"


def by_simulation(mutant: Mutant, known: set[int]) -> tuple[bool, str]:
    """Whether the simulation notices a bug that is planted; and a line of what it said."""

    def simulate() -> tuple[int, str] | None:
        make(SIMULATION, mutant.name)
        return failing_seed(mutant.seeds, known)

    found, took = timed(simulate)
    if found is not None:
        return True, f"by seed {found[0]} in {took}: {found[1]}"
    return False, f"not by the first {mutant.seeds} seeds"


def verdict(mutant: Mutant, known: set[int]) -> tuple[str, str]:
    """What became of a bug, in a word and in more."""
    told = []
    try:
        apply(mutant)
        if mutant.command is not None:
            told.append(by_command(mutant))
        if mutant.seeds:
            told.append(by_simulation(mutant, known))
    except StaleError as stale:
        return "ERROR", str(stale)
    finally:
        remove(mutant)
    more = "; ".join(line for _, line in told)
    return ("found", more) if all(found for found, _ in told) else ("NOT FOUND", f"{mutant.promise}: {more}")


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
    record = Record(RECORD, fingerprint())
    before = [one for one in mutants if wanted.go_on and one in record]
    rest = [one for one in mutants if one not in before]
    copy_tree()
    wrong = sound(rest)
    most = max((one.seeds for one in rest), default=0)
    known = failing_without_bugs(most) if most else set()
    if known:
        print(f"seeds that fail without any bug, and count for none: {', '.join(map(str, sorted(known)))}")
    found = len(before)
    for mutant in rest:
        problem = wrong.get(mutant.command or "")
        word, more = ("ERROR", problem) if problem is not None else verdict(mutant, known)
        if word == "found":
            found += 1
            record.add(mutant)
        print(f"{word:9} {mutant.name} {more}", flush=True)
    print(f"{found} of {len(mutants)} found" + (f" ({len(before)} of them before)" if before else ""))
    return 0 if found == len(mutants) and mutants else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
