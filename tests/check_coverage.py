"""Checks that every scenario of the contract has a test on every surface, such as `rust` or `python`.

The tests come from pytest's own collection, so that a skipped file or a misspelled name is noticed here. A
test with an unknown number is an error, and so is a test that asserts nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys

from harness import contract
from harness.assertions import Sources
from harness.paths import TESTS
from harness.surfaces import SURFACES

COMMAND = "the command"
"""Surface of the tests in `cli/` and `packages/`."""

# Example: scenarios/test_x.py::test_s07_name[rust] or [rust-further-parameters].
_ID = re.compile(r"::(?P<name>test_\w+)(?:\[(?P<parameters>.*)\])?$")


def collected() -> list[tuple[str, str | None]]:
    """Return the name and surface of every scenario test."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "scenarios", "cli", "packages"]
    run = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(run.stdout + run.stderr)
    found = []
    for line in run.stdout.splitlines():
        if match := _ID.search(line):
            first = (match["parameters"] or "").split("-")[0]
            found.append((match["name"], surface_of(line, first)))
    return found


def surface_of(line: str, first: str) -> str | None:
    """Return the surface of a collected test, from its directory and its first parameter."""
    if line.startswith(("cli/", "packages/")):
        return COMMAND
    return first if first in SURFACES else None


def gaps(tests: list[tuple[str, str | None]], rows: dict[int, contract.Scenario]) -> list[str]:
    """Return a line for each missing test, and for each test that does not match the contract."""
    found = []
    covered: set[tuple[int, str]] = set()
    for name, surface in tests:
        number = contract.number_of(name)
        if number is None:
            found.append(f"{name} carries no number")
        elif number not in rows:
            found.append(f"{name}: scenarios.md has no S{number}")
        elif surface is None:
            found.append(f"{name} runs on no surface")
        elif surface in rows[number].exempt:
            found.append(f"{name} runs on {surface}, to which S{number} does not apply")
        elif surface == COMMAND and len(rows[number].exempt) < len(SURFACES):
            found.append(f"{name} is of the command, and S{number} is not")
        else:
            covered.add((number, surface))
    for number, row in sorted(rows.items()):
        missing = [name for name in SURFACES if name not in row.exempt and (number, name) not in covered]
        if len(row.exempt) == len(SURFACES) and (number, COMMAND) not in covered:
            missing = [COMMAND]
        if missing:
            found.append(f"S{number} {row.name}: no test on {', '.join(missing)}")
    return sorted(set(found), key=found.index)


def main() -> None:
    """Print all problems. Exit with status 1 if there are any."""
    rows = contract.scenarios()
    tests = collected()
    found = gaps(tests, rows) + Sources(TESTS).silent()
    for line in found:
        print(line)
    if found:
        raise SystemExit(1)
    print(f"{len(rows)} scenarios, {len(tests)} tests: every surface is covered")


if __name__ == "__main__":
    main()
