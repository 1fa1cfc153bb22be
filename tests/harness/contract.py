"""Reads from scenarios.md the scenarios, and the surfaces (Rust API or binding) that skip each scenario."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from harness.paths import TESTS
from harness.surfaces import SURFACES

_ROW = re.compile(r"^\|\s*S(\d+)\s*\|([^|]*)\|([^|]*)\|([^|]*)\|\s*$")
_TEST = re.compile(r"^test_s(\d+)_")


@dataclass(frozen=True)
class Scenario:
    """One row of the contract."""

    number: int
    name: str
    holds: str
    # Surface -> reason for the exemption.
    exempt: dict[str, str]


def number_of(test: str) -> int | None:
    """Return the scenario number in a test's name, or None."""
    match = _TEST.match(test)
    return int(match.group(1)) if match else None


def _exempt(cell: str, number: int) -> dict[str, str]:
    # "rust, node: why; aio: why"
    found = {}
    for part in filter(None, (piece.strip() for piece in cell.split(";"))):
        names, colon, reason = part.partition(":")
        if not colon or not reason.strip():
            raise ValueError(f"S{number}: `{part}` gives no reason")
        for name in (piece.strip() for piece in names.split(",")):
            if name not in SURFACES:
                raise ValueError(f"S{number}: there is no surface `{name}`")
            found[name] = reason.strip()
    return found


_CHOICE = re.compile(r"[Ss](\d+)(?:-[Ss](\d+))?")


def chosen(text: str) -> set[int]:
    """Return the scenario numbers selected by a text such as `S20`, `S20,S31` or `S20-S29`."""
    found: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        if (match := _CHOICE.fullmatch(part)) is None:
            raise ValueError(f"`{part}` is neither a scenario, such as S20, nor a range, such as S20-S29")
        first, last = int(match[1]), int(match[2] or match[1])
        within = {number for number in scenarios() if first <= number <= last}
        if not within:
            raise ValueError(f"scenarios.md has no {part}")
        found |= within
    return found


@cache
def scenarios() -> dict[int, Scenario]:
    """Return all rows of the contract by number."""
    found: dict[int, Scenario] = {}
    for line in (TESTS / "scenarios.md").read_text().splitlines():
        if match := _ROW.match(line):
            number = int(match.group(1))
            if number in found:
                raise ValueError(f"S{number} has two rows")
            found[number] = Scenario(
                number, match.group(2).strip(), match.group(3).strip(), _exempt(match.group(4), number)
            )
    if not found:
        raise ValueError("scenarios.md contains no scenario")
    return found
