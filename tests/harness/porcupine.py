"""Compares two checkers on the same histories: our checker (history.py) and Porcupine (tests/porcupine).

    python -m harness.porcupine FILE…

Both must reach the same verdict on each history. If the recorder also checks its histories, as the simulation
does, its verdict must agree too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.built import require
from harness.histories import History, read, write
from harness.paths import PORCUPINE

SHOWN = 20
"""Maximum number of problems that a run prints."""


@dataclass(frozen=True)
class Verdict:
    """Porcupine's verdict on one history."""

    history: str
    holds: int
    accepted: bool
    reasons: tuple[tuple[str, str, str], ...] = ()
    """Path, rule, and the first operation that does not fit the model."""

    @property
    def rules(self) -> set[str]:
        """The broken rules."""
        return {rule for _, rule, _ in self.reasons}


@dataclass
class Comparison:
    """Result of both checkers on many histories."""

    histories: int = 0
    holds: int = 0
    refused: list[str] = field(default_factory=list)
    """Histories that both checkers reject."""
    disagreements: list[str] = field(default_factory=list)
    ours: float = 0.0
    theirs: float = 0.0
    """Time in seconds that each checker took, including reading."""

    @property
    def problems(self) -> list[str]:
        """All disagreements and all rejected histories."""
        return self.disagreements + self.refused

    def __str__(self) -> str:
        return (
            f"{self.histories} histories with {self.holds} holds: the checkers disagree on "
            f"{len(self.disagreements)}, both reject {len(self.refused)}; "
            f"our checker took {self.ours:.1f} s, Porcupine {self.theirs:.1f} s"
        )


def verdicts(file: Path) -> Iterator[Verdict]:
    """Yield Porcupine's verdicts on the histories of a file, in order."""
    require("porcupine", "the independent checker")
    with subprocess.Popen([PORCUPINE, file], stdout=subprocess.PIPE, text=True) as judge:
        assert judge.stdout is not None
        for line in judge.stdout:
            reported = json.loads(line)
            reasons = tuple(
                (reason["path"], reason["rule"], reason.get("at", ""))
                for reason in reported.get("reasons", ())
            )
            yield Verdict(reported["history"], reported["holds"], reported["accepted"], reasons)
    if judge.returncode != 0:
        raise RuntimeError(f"{PORCUPINE} ended with {judge.returncode}")


def compare(*files: Path) -> Comparison:
    """Run both checkers on every history in these files."""
    found = Comparison()
    for file in files:
        began = time.monotonic()
        theirs = list(verdicts(file))
        found.theirs += time.monotonic() - began
        began = time.monotonic()
        for history, verdict in itertools.zip_longest(read(file), theirs):
            _add(found, history, verdict)
        found.ours += time.monotonic() - began
    return found


def _add(found: Comparison, history: History | None, verdict: Verdict | None) -> None:
    if history is None or verdict is None or (history.name, len(history.holds)) != _seen(verdict):
        raise RuntimeError(f"the checkers read different histories: {verdict} and {history}")
    found.histories += 1
    found.holds += len(history.holds)
    broken = history.broken_rules()
    ours = [problem for problems in broken.values() for problem in problems]
    reported = {"our checker": not ours, "Porcupine": verdict.accepted}
    if history.breaches is not None:
        reported["the recorder"] = not history.breaches
    if len(set(reported.values())) > 1:
        words = ", ".join(
            f"{judge} {'accepts' if well else 'refuses'} it" for judge, well in reported.items()
        )
        what = [*ours, *map(str, verdict.reasons), *(history.breaches or ())]
        found.disagreements.append("\n  ".join([f"{history.name}: {words}", *what[:SHOWN]]))
    elif ours:
        found.refused.append("\n  ".join([f"{history.name}: {', '.join(sorted(broken))}", *ours[:SHOWN]]))


def _seen(verdict: Verdict) -> tuple[str, int]:
    return verdict.history, verdict.holds


def compared(history: History, keep: Path | None = None) -> Comparison:
    """Run both checkers on one history. With `keep`, also keep it as a file in that directory."""
    with TemporaryDirectory() as scratch:
        file = (keep or Path(scratch)) / f"{history.name.replace('/', '-').replace(' ', '-')}.jsonl"
        write(file, [history])
        return compare(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check files. Return 1 if a history is rejected or the checkers disagree."""
    parser = argparse.ArgumentParser(prog="python -m harness.porcupine", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--at-least", type=int, default=1, metavar="N", help="fail if there are fewer histories"
    )
    asked = parser.parse_args(arguments)
    found = compare(*asked.files)
    print(*found.problems[:SHOWN], found, sep="\n")
    if found.histories < asked.at_least:
        print(f"{asked.at_least} histories expected, but only {found.histories} checked")
        return 1
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
