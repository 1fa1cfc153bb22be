"""A bug of tests/mutants, as its patch describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from suites import ROOT

PATCHES = ROOT / "tests" / "mutants"

NEEDED = {"promise"}
HEADERS = NEEDED | {"covers", "found by", "build", "command", "simulation"}

KINDS = {"": "seed", "once": "once", "together": "together"}
"""The kinds of simulation runs: the word after the number of seeds in a patch, and the run's own name."""

MOST_SEEDS = 1000
"""Maximum number of seeds in which a simulation must find a bug."""

PARTS = ("core", "python", "node")


class StaleError(Exception):
    """A patch is no longer valid."""


@dataclass(frozen=True)
class Mutant:
    """A bug, and what must notice it: a command, a number of simulated seeds, or both."""

    name: str
    patch: str
    promise: str
    covers: tuple[str, ...]
    found_by: str | None
    build: str | None
    command: str | None
    seeds: int
    kind: str = "seed"

    @staticmethod
    def read(path: Path) -> Mutant:
        text = path.read_text()
        head, mark, patch = text.partition("--- a/")
        headers = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        seeds, _, kind = headers.get("simulation", "0").partition(" ")
        command, found_by = headers.get("command"), headers.get("found by")
        sound = (
            mark
            and NEEDED <= headers.keys() <= HEADERS
            and (command is None) == (found_by is None)
            and (command is not None or "simulation" in headers)
            and seeds.isdigit()
            and kind in KINDS
            and ("simulation" in headers) == (1 <= int(seeds) <= MOST_SEEDS)
        )
        if not sound:
            raise StaleError(
                f"{path.name}: the headers are {', '.join(sorted(HEADERS))}; it needs a promise, a command "
                f"with `found by` or a `simulation` of 1 to {MOST_SEEDS} seeds (`N once`, `N together`: of "
                "such runs), and a diff follows"
            )
        return Mutant(
            path.stem,
            mark + patch,
            headers["promise"],
            tuple(one.strip() for one in headers.get("covers", "").split(",") if one.strip()),
            found_by,
            headers.get("build") or built_first(command),
            command,
            int(seeds),
            KINDS[kind],
        )

    @property
    def files(self) -> list[str]:
        """Return the files that it changes."""
        return re.findall(r"^--- a/(\S+)", self.patch, re.MULTILINE)

    @property
    def part(self) -> str:
        """Return the part of the project that it breaks."""
        bindings = [name for name in PARTS if any(file.startswith(f"bindings-{name}") for file in self.files)]
        return bindings[0] if bindings else "core"


def built_first(command: str | None) -> str | None:
    """Return the command that compiles the tests of a command. A bug that does not compile proves nothing."""
    if command is None or not command.startswith("cargo test "):
        return None
    return command.split(" -- ")[0] + " --no-run"


def patches(parts: list[str]) -> list[Path]:
    """Return the patches whose names contain one of these parts, or all."""
    paths = sorted(PATCHES.glob("*.patch"))
    return [path for path in paths if not parts or any(part in path.stem for part in parts)]
