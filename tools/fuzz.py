"""Fuzzes input from others, guided by coverage: builds the targets of tests/fuzz, and runs each for a while.

    python3 tools/fuzz.py [--minutes N] [--jobs N] [target ...]

Each target begins with its corpus, and with what earlier runs found in target/fuzz. A panic, an input that
takes longer than LONGEST seconds, and memory beyond what is promised end it, with the input in a file. Ends
with a line for each target; fails if one has ended early.
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
"""Seconds for one input. Each takes a few milliseconds; the rest is for a busy machine, which may stop us."""

MEMORY = 1024
"""MiB for a whole process, beside what the targets count themselves."""

LARGEST = 4096
"""Bytes of one input."""

INSTRUMENTED = (
    *("--cfg", "fuzzing"),
    "-Cpasses=sancov-module",
    *(
        f"-Cllvm-args=-sanitizer-coverage-{what}"
        for what in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
)
"""The coverage that guides libFuzzer. The stable compiler has it, as it has no sanitizers."""


@dataclass
class Result:
    """How the run of a target ended."""

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
    """This machine, as the compiler calls it."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True, cwd=HERE).stdout
    return told.partition("host: ")[2].split()[0]


def build(machine: str) -> None:
    """Builds all targets. A machine that is named keeps the flags away from build scripts."""
    command = ("cargo", "build", "--locked", "--quiet", "--release", "--features", "libfuzzer")
    where = ("--target", machine, "--target-dir", str(BUILD))
    flags = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(INSTRUMENTED)}
    subprocess.run([*command, *where], cwd=HERE, check=True, env={**os.environ, **flags})


def last(pattern: str, text: str) -> int:
    """The number of the last match; 0 without one."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(target: str, machine: str, seconds: int) -> Result:
    """Runs a target, and reads what it printed."""
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
    """Runs the targets, so many at a time."""
    machine = host()
    build(machine)
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda target: run(target, machine, seconds), targets)


def main() -> int:
    """Runs what is asked for; 1 if something was found."""
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
