"""Fuzzes input from outside, guided by coverage: builds the targets of tests/fuzz and runs each for a while.

    python3 tools/fuzz.py [--minutes N] [--jobs N] [target ...]

Each target starts with its corpus and with the inputs that earlier runs found in target/fuzz. It ends early
on a panic, on an input that takes longer than LONGEST seconds, and on memory beyond the promised limit, and
stores the input in a file. The last lines show the result of each target. The program fails if a target has
ended early.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests" / "fuzz"
WORK = HERE / "target" / "fuzz"
BUILD = HERE / "target" / "coverage"

TARGETS = ("frames", "names", "node_data", "hosts")

LONGEST = 60
"""Timeout for one input, in seconds. An input takes a few milliseconds; the rest is for a busy machine, which
can stop the process.
"""

MEMORY = 1024
"""Memory limit of a process in MiB, in addition to the targets' own limits."""

LARGEST = 4096
"""Maximum size of an input, in bytes."""

INSTRUMENTED = (
    *("--cfg", "fuzzing"),
    "-Cpasses=sancov-module",
    *(
        f"-Cllvm-args=-sanitizer-coverage-{what}"
        for what in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
)
"""Compiler flags for the coverage that guides libFuzzer. The stable compiler supports them, but no
sanitizers.
"""


@dataclass
class Result:
    """The result of a target's run."""

    target: str
    passed: bool
    executions: int
    coverage: int
    corpus: int
    finding: str | None
    log: Path

    def __str__(self) -> str:
        told = "ok" if self.passed else f"ENDED EARLY: {self.finding or 'see its log'}"
        counts = f"{self.executions} executions, {self.coverage} places covered, {self.corpus} inputs kept"
        return f"{self.target}: {counts}, {told} ({self.log.relative_to(ROOT)})"


def host() -> str:
    """Return the compiler's name of this machine."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True, cwd=HERE).stdout
    return told.partition("host: ")[2].split()[0]


def build(machine: str) -> None:
    """Build all targets. An explicit target machine keeps the flags away from build scripts."""
    command = ("cargo", "build", "--locked", "--quiet", "--release", "--features", "libfuzzer")
    where = ("--target", machine, "--target-dir", str(BUILD))
    flags = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(INSTRUMENTED)}
    subprocess.run([*command, *where], cwd=HERE, check=True, env={**os.environ, **flags})


def last(pattern: str, text: str) -> int:
    """Return the number in the last match, or 0 without a match."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(target: str, machine: str, seconds: int) -> Result:
    """Run a target and parse its output."""
    kept = WORK / target
    kept.mkdir(parents=True, exist_ok=True)
    log = WORK / f"{target}.log"
    command = [
        str(BUILD / machine / "release" / target),
        *(f"-timeout={LONGEST}", f"-rss_limit_mb={MEMORY}", f"-max_len={LARGEST}"),
        *(f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={WORK}/{target}-"),
        *(str(kept), str(HERE / "corpus" / target)),
    ]
    with log.open("w") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    text = log.read_text(errors="replace")
    finding = re.search(r"Test unit written to (\S+)", text)
    return Result(
        target,
        status == 0,
        last(r"stat::number_of_executed_units: (\d+)", text) or last(r"^#(\d+)", text),
        last(r" cov: (\d+)", text),
        last(r" corp: (\d+)", text),
        finding[1] if finding else None,
        log,
    )


def results(targets: list[str], seconds: int, jobs: int) -> Iterator[Result]:
    """Run the targets, `jobs` in parallel."""
    machine = host()
    build(machine)
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda target: run(target, machine, seconds), targets)


def main() -> int:
    """Run the requested targets. Return 1 if one has found something."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {', '.join(TARGETS)}; else all")
    parser.add_argument("--minutes", type=float, default=1, metavar="N", help="for each target")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="targets at a time")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    seconds = round(asked.minutes * 60)
    if seconds < 1 or asked.jobs < 1:
        parser.error("--minutes and --jobs take more than 0")
    well = True
    for result in results(asked.targets or list(TARGETS), seconds, asked.jobs):
        print(result, flush=True)
        well = well and result.passed
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
