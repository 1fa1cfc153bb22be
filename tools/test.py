"""Runs every suite, each test under a time-out, and ends with one line that sums them up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from parts import EVERYTHING, PARTS, everything, lacking
from suites import PYTHON, ROOT, Tally, node, pytest, run

RUST_TEST_LIMIT = 300.0
"""Seconds for one Rust test: the property tests take longest."""

WORLD_LIMIT = 1200.0
"""The same for one of the explorer's larger worlds: the largest has 5.8 million states."""

SEEDS = 500
"""Simulated worlds. `make soak` has 10,000."""

SIMULATION_LIMIT = 1200.0
"""Seconds to build the simulation and to run it."""

AT_A_TIME = 2
"""How many tests or suites run at the same time: bounds on time must hold on two processors."""

WAITING_AT_A_TIME = 4
"""The same for the scenarios, which wait more than they work: each needs a quarter of a processor."""

SUITES_AT_A_TIME = 3
"""The same for suites that run beside each other."""

ENDING_WORKERS = ("-o", "timeout_method=thread")
"""For tests that are not ours: what hangs may hang again when it is interrupted. Its worker ends with it."""

STRAY_LIMIT = 5.0
"""Seconds within which processes must end after the suite that started them."""


def rust_binaries(*which: str) -> Iterator[str]:
    """Builds Rust tests; returns the executables that cargo names."""
    command = ["cargo", "test", "--locked", "--no-run", *which, "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            yield message["executable"]


def rust_tests(binary: str, *options: str) -> set[str]:
    """The names of the tests in an executable."""
    command = [binary, "--list", "--format=terse", *options]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.removesuffix(": test") for line in listed.stdout.splitlines()}


def each_alone(tests: list[tuple[str, str]], *options: str, limit: float = RUST_TEST_LIMIT) -> Tally:
    """Every Rust test in its own process, so that one that hangs is named and ended."""
    tally = Tally()

    def one(test: tuple[str, str]) -> tuple[int, str]:
        binary, name = test
        return run([binary, "--exact", name, "--nocapture", *options], limit=limit, quiet=True)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for (_, name), (code, text) in zip(tests, pool.map(one, tests), strict=True):
            if code == 0 and "1 passed" in text:
                tally.passed += 1
            else:
                tally.failures.append(name)
                print(f"FAILED {name}\n{text}", flush=True)
    return tally


def worlds() -> Tally:
    """The Rust tests that take long without optimizations."""
    which = ("--release", "-p", "zklock", "--test", "queue_explorer", "--test", "queue_costs")
    tests = [
        (binary, name) for binary in rust_binaries(*which) for name in sorted(rust_tests(binary, "--ignored"))
    ]
    return each_alone(tests, "--ignored", limit=WORLD_LIMIT)


def rust() -> Tally:
    """All other Rust tests."""
    # The whole workspace, as tools/build.py does, which shares most of it.
    tally = each_alone(
        [
            (binary, name)
            for binary in rust_binaries("--workspace", "--tests")
            for name in sorted(rust_tests(binary) - rust_tests(binary, "--ignored"))
        ]
    )
    code, text = run(
        ["cargo", "test", "--locked", "--doc", "-p", "zklock", "-p", "zklock-embedded"],
        limit=RUST_TEST_LIMIT,
        quiet=True,
    )
    if code == 0:
        tally.passed += 1
    else:
        tally.failures.append("documentation examples")
        print(text, flush=True)
    return tally


def simulation() -> Tally:
    """The whole stack in simulated time: a seed is one history, and the first ones have no violation."""
    manifest = ("--locked", "--release", "--manifest-path", f"{ROOT / 'tests' / 'simulation' / 'Cargo.toml'}")
    tally = Tally()
    for name, command in (
        ("simulation: a seed is one history", ["cargo", "test", *manifest]),
        (f"simulation: {SEEDS} seeds", ["cargo", "run", "--quiet", *manifest, "--", "--seeds", f"{SEEDS}"]),
    ):
        code, text = run(command, limit=SIMULATION_LIMIT, quiet=True)
        if code == 0:
            tally.passed += 1
        else:
            tally.failures.append(name)
            print(text, flush=True)
    return tally


def coverage() -> Tally:
    """Every scenario has a test in every language."""
    code, text = run([PYTHON, "check_coverage.py"], cwd=ROOT / "tests", limit=120, quiet=True)
    if code != 0:
        print(text, flush=True)
    return Tally(passed=1) if code == 0 else Tally(failures=["scenario coverage"])


def on_the_embedded_server() -> Tally:
    """The scenarios once more, each on one surface: all of them have run on the real server."""
    options = (
        "--server",
        "embedded",
        "--one-surface",
        "-n",
        f"{WAITING_AT_A_TIME}",
        "--dist",
        "worksteal",
    )
    tally = pytest("scenarios", *options, cwd="tests", quiet=False)
    # What asks for more than that server has, has been run on the real one.
    tally.left_out.clear()
    return tally


def unshown(left_out: Counter[str]) -> Iterator[str]:
    """What this run did not show, because this machine lacks something, or for other reasons."""
    for name, part in PARTS.items():
        if not part.apart and (what := lacking(name)) is not None:
            yield what
    if lacking("jars") is not None:
        yield "safety: all tests ran on the embedded server, which is for development and tests"
    for reason, count in sorted(left_out.items()):
        yield f"{count} tests left out: {reason}"


def strays() -> list[str]:
    """Processes that a suite left behind. Helpers of multiprocessing end a moment after their parent."""
    deadline = time.monotonic() + STRAY_LIMIT
    while (found := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def marked_processes() -> list[str]:
    """The processes that carry the mark which this run put into their environment."""
    mark = f"ZKLOCK_TEST_RUN={os.environ['ZKLOCK_TEST_RUN']}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{process.name} {command.strip()}")
        except OSError:
            # Ended, or another user's.
            continue
    return found


SUITES: dict[str, Callable[[], Tally]] = {
    "rust": rust,
    "simulation": simulation,
    "harness": lambda: pytest("unit", cwd="tests"),
    "python": lambda: pytest("tests", cwd="bindings-python"),
    "coverage": coverage,
    "node": node,
    # Six at a time, for its tests sleep most of the time.
    "clients": lambda: pytest("clients", *ENDING_WORKERS, "-n", "6", "--dist", "worksteal", cwd="tests"),
    "cli": lambda: pytest("cli", "-n", "3", "--dist", "worksteal", cwd="tests"),
    "packages": lambda: pytest("packages", cwd="tests"),
    # What a file sets up for all its tests is set up once. The files stay in their order: xdist would begin
    # with those that have the most tests, and end with one that has few and takes long, on one processor.
    "scenarios": lambda: pytest(
        "scenarios",
        *("-n", f"{WAITING_AT_A_TIME}", "--dist", "loadfile", "--no-loadscope-reorder"),
        cwd="tests",
        quiet=False,
    ),
    "embedded": lambda: on_the_embedded_server(),
}

# Suites that `make test` leaves to commands of their own.
APART: dict[str, Callable[[], Tally]] = {
    "consumers": lambda: pytest(
        "consumers", "-n", f"{AT_A_TIME}", "--dist", "loadfile", cwd="tests", quiet=False
    ),
    "worlds": worlds,
}

# Suites that need no part: cargo builds what they run.
CARGO = {"rust", "worlds"}

# Suites that run beside each other, for they mostly wait. The others use every processor by themselves.
TOGETHER = ["simulation", "harness", "python", "coverage", "node", "clients", "cli", "packages"]


def stages(names: list[str]) -> Iterator[list[str]]:
    """The suites in order; those that run together as one stage."""
    together = [name for name in names if name in TOGETHER]
    for name in names:
        if name not in together:
            yield [name]
        elif name == together[0]:
            yield together


def timed(name: str) -> Tally:
    """Runs one suite and tells how it went."""
    start = time.monotonic()
    tally = (SUITES | APART)[name]()
    took = time.monotonic() - start
    print(f"=== {name}: {tally.passed} passed, {len(tally.failures)} failed in {took:.0f} s", flush=True)
    return tally


def main() -> int:
    """Runs the suites named, or all."""
    # Without a real server, the scenarios run on the embedded one anyway.
    names = sys.argv[1:] or [name for name in SUITES if name != "embedded" or lacking("jars") is None]
    if unknown := set(names) - set(SUITES) - set(APART):
        known = ", ".join(SUITES | APART)
        print(f"no such suite: {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    parts = [part for part in PARTS.values() if not part.apart or "consumers" in names]
    missing = [what for part in parts if (what := lacking(part.name)) is not None]
    if missing and everything():
        print(f"{EVERYTHING} is set: nothing may be left out\n" + "\n".join(missing), file=sys.stderr)
        return 2
    parts = [part for part in parts if lacking(part.name) is None]
    if set(names) - CARGO and (problems := [what for part in parts if (what := part.problem())]):
        print("\n".join(problems), file=sys.stderr)
        return 2
    os.environ["ZKLOCK_TEST_RUN"] = str(os.getpid())
    # A shell that starts us in the background has SIGINT ignored, and our children would inherit
    # that: the tests of Ctrl-C would wait for nothing. A signal that has a handler here is back to
    # its default there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total = Tally()
    for stage in stages(names):
        print(f"\n=== {', '.join(stage)}", flush=True)
        with ThreadPoolExecutor(SUITES_AT_A_TIME) as pool:
            for tally in pool.map(timed, stage):
                total.add(tally)
        for stray in strays():
            total.failures.append(f"{', '.join(stage)} left a process behind: {stray}")
            os.kill(int(stray.split()[0]), signal.SIGKILL)
    for what in unshown(total.left_out):
        print(f"not shown: {what}")
    for failure in total.failures:
        print(f"FAILED {failure}")
    print(f"{total.passed} passed, {len(total.failures)} failed", flush=True)
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
