"""Counts instructions and allocations of single operations and compares them with a stored baseline.

Usage: `make bench-counts`; with `RENEW=1` the new counts become the baseline. Unlike times, the counts hardly
depend on the load of the machine. The counts of the queue, which does no I/O, are the same in each run. The
counts of the driver, which runs the queue on threads, vary a little with the order of events.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target" / "counts"
RELEASE = TARGET / "release"
BASELINE = ROOT / "benches" / "results" / "counts.json"

Counts = dict[str, dict[str, float]]
Tools = dict[str, str]


@dataclass(frozen=True)
class Work:
    """An operation to measure, the number of its repetitions, and the permitted growth of its counts."""

    name: str
    shown: str
    times: int
    limit: float
    served: bool = True


WORKS = (
    Work("queue", "queue: a contender joins and leaves, alone", 2_000, 0.01, served=False),
    Work("queue-100", "queue: the same next to 100 contenders of the client", 500, 0.01, served=False),
    Work("pair", "driver: acquire and release of a free lock", 400, 0.10),
    Work("contend", "driver: the same, 16 tasks of one client", 800, 0.15),
    Work("try", "driver: a try of a taken lock", 400, 0.10),
    Work("reenter", "driver: re-entry", 4_000, 0.05),
)


@contextmanager
def server() -> Iterator[str]:
    """Run the block with the embedded server in a separate process, whose work is not counted."""
    process = subprocess.Popen([RELEASE / "zklock-test-server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").split()[0]
    finally:
        process.kill()
        process.wait()


def carried_out(work: Work, times: int, hosts: str, *before: str) -> subprocess.CompletedProcess[str]:
    """Run some work, optionally under another program."""
    command = [*before, str(RELEASE / "zklock-bench-counts"), work.name, str(times), hosts]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)


def instructions(work: Work, hosts: str) -> float:
    """Return the number of instructions per repetition. Runs the work twice, with different numbers of
    repetitions, and uses the difference, which excludes the work at startup.
    """
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    found = []
    for times in (work.times // 4, work.times // 4 * 3):
        (collected,) = re.findall(r"Collected : (\d+)", carried_out(work, times, hosts, *tool).stderr)
        # The warm-up runs a tenth of the repetitions.
        found.append((int(collected), times + times // 10 + 1))
    (few, few_times), (many, many_times) = found
    return (many - few) / (many_times - few_times)


def counted() -> Counts:
    """Return the counts of each kind of work for one repetition."""
    counts: Counts = {}
    has_valgrind = shutil.which("valgrind") is not None
    if not has_valgrind:
        print("not counted: instructions (valgrind is not on the PATH)")
    for work in WORKS:
        # Start a new server for each kind of work, because the nodes and sessions of earlier work would
        # change the counts.
        with server() as hosts:
            told = json.loads(carried_out(work, work.times, hosts).stdout)
        counts[work.name] = {name: round(value / work.times, 2) for name, value in told.items()}
        if has_valgrind:
            with server() as hosts:
                counts[work.name]["instructions"] = round(instructions(work, hosts))
        print(
            f"{work.shown}: " + ", ".join(f"{value:,g} {name}" for name, value in counts[work.name].items())
        )
    return counts


def version(command: str) -> str:
    """Return a tool's version."""
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def processor() -> str:
    """Return the processor's name and generation. The counts depend on them, because libc has different
    functions for each processor to copy and compare memory.
    """
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return " ".join(told.get(name, "") for name in ("model name", "cpu family", "model")).strip()


def tools() -> Tools:
    """Return the properties of this machine that affect the number of instructions."""
    known = {"rustc": version("rustc"), "libc": " ".join(platform.libc_ver()), "processor": processor()}
    return known | ({"valgrind": version("valgrind")} if shutil.which("valgrind") else {})


def differences(baseline: Tools, now: Tools) -> list[str]:
    """Return the properties that differ from those of the baseline."""
    return [
        f"the baseline was counted with another {name} ({baseline[name]}, here {value}): it may be the cause"
        for name, value in now.items()
        if baseline.get(name, value) != value
    ]


def moved(baseline: Counts, now: Counts) -> list[str]:
    """Return a line for each count that has changed by more than the limit of its operation."""
    found = []
    for work in WORKS:
        for name, value in now.get(work.name, {}).items():
            before = baseline.get(work.name, {}).get(name)
            if before is not None and abs(value - before) > work.limit * max(before, 1):
                change = f"{(value - before) / before:+.1%}" if before else "from nothing"
                found.append(f"{work.shown}: {name} {before:,g} -> {value:,g} ({change})")
    return found


def grown(line: str) -> bool:
    """Return whether a line of `moved` reports growth."""
    return "(-" not in line


def main() -> int:
    """Count and compare."""
    parser = argparse.ArgumentParser(prog="make bench-counts", description=__doc__)
    parser.add_argument("--renew", action="store_true", help="store the new counts as the baseline")
    renew = parser.parse_args().renew
    # With several codegen units, renaming a file can change which functions the compiler inlines. The counts
    # then change by several percent. The published packages are also compiled with one unit.
    env = os.environ | {"CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "1"}
    build = ["cargo", "build", "--locked", "--release", "--workspace", "--quiet", "--target-dir", str(TARGET)]
    subprocess.run(build, cwd=ROOT, env=env, check=True)
    now = counted()
    if not renew and not BASELINE.exists():
        raise SystemExit(f"no baseline: {BASELINE.name} does not exist; RENEW=1 writes it")
    if renew:
        BASELINE.parent.mkdir(exist_ok=True)
        BASELINE.write_text(json.dumps({"counted_with": tools(), "works": now}, indent=1) + "\n")
        return 0
    baseline = json.loads(BASELINE.read_text())
    changes = moved(baseline["works"], now)
    if changes:
        print("\n".join(["", "changed counts:", *changes]))
        for difference in differences(baseline["counted_with"], tools()):
            print(difference)
    else:
        print("\nno count has changed")
    return 1 if any(map(grown, changes)) else 0


if __name__ == "__main__":
    sys.exit(main())
