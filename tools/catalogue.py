"""All test suites, and how to run them."""

from __future__ import annotations

import re
from collections.abc import Callable

from parts import BUILT, PARTS, lacking
from rust_suite import rust, worlds
from suites import PYTHON, ROOT, Tally, node, pytest, run

SEEDS = 500
"""Number of simulated seeds. `make soak` runs 10,000 different ones each day."""

SIMULATION_LIMIT = 1200.0
"""Timeout for building and running the simulation, in seconds."""

AT_A_TIME = 2
"""Number of tests of a suite that run in parallel."""

WAITING_AT_A_TIME = 4
"""The same for the scenarios, which mostly wait: each needs a quarter of a processor."""

ENDING_WORKERS = ("-o", "timeout_method=thread")
"""Options for third-party tests. A test that hangs can hang again when it is interrupted, so its worker
process ends with it.
"""


def tier(suite: str, whole: bool) -> tuple[str, ...]:
    """Return the pytest options to run a whole suite or its first tier."""
    return () if whole else ("-p", "first_tier", f"--first-tier={suite}")


def simulation(_whole: bool) -> Tally:
    """Run the whole stack in simulated time: a seed always has the same history, and the first seeds have no
    violation.

    Two other judges read those histories again: our checker, and Porcupine.
    """
    manifest = ("--locked", "--release", "--manifest-path", f"{ROOT / 'tests' / 'simulation' / 'Cargo.toml'}")
    histories = str(BUILT / "simulated.jsonl")
    seeds = ["--seeds", f"{SEEDS}", "--histories", histories]
    tally = Tally()
    commands = [
        ("simulation: a seed is one history", ["cargo", "test", *manifest], ROOT),
        (f"simulation: {SEEDS} seeds", ["cargo", "run", "--quiet", *manifest, "--", *seeds], ROOT),
    ]
    if lacking("porcupine") is None:
        judge = [PYTHON, "-m", "harness.porcupine", "--at-least", f"{SEEDS}", histories]
        commands.append((f"simulation: both judges on {SEEDS} seeds", judge, ROOT / "tests"))
    else:
        tally.left_out[PARTS["porcupine"].shown] += 1
    for name, command, directory in commands:
        code, text = run(command, cwd=directory, limit=SIMULATION_LIMIT, quiet=True)
        if code == 0:
            tally.passed += 1
        else:
            tally.failures.append(name)
            print(text, flush=True)
    return tally


APART_LIMIT = 900.0
"""Timeout for building and testing a separate workspace, in seconds."""


def workspace(name: str) -> Tally:
    """Run the tests of a separate workspace, by its directory below tests."""
    manifest = str(ROOT / "tests" / name / "Cargo.toml")
    code, text = run(
        ["cargo", "test", "--locked", "--manifest-path", manifest], limit=APART_LIMIT, quiet=True
    )
    passed = sum(int(count) for count in re.findall(r"^test result: \w+\. (\d+) passed", text, re.MULTILINE))
    if code == 0 and passed > 0:
        return Tally(passed=passed)
    print(text, flush=True)
    failed = re.findall(r"^test (\S+) \.\.\. .*FAILED$", text, re.MULTILINE)
    return Tally(passed=passed, failures=[f"{name}: {test}" for test in failed] or [f"tests/{name}"])


def coverage(_whole: bool) -> Tally:
    """Check that every scenario has a test in every language."""
    code, text = run([PYTHON, "check_coverage.py"], cwd=ROOT / "tests", limit=120, quiet=True)
    if code != 0:
        print(text, flush=True)
    return Tally(passed=1) if code == 0 else Tally(failures=["scenario coverage"])


def spread(number: int, dist: str = "worksteal") -> tuple[str, ...]:
    """Return the options to run this many tests in parallel."""
    return ("-n", f"{number}", "--dist", dist)


def scenarios(whole: bool) -> Tally:
    """Run the scenarios on real servers. In the first tier, each runs on one surface, in rotation."""
    # All tests of a file share its servers, so one process runs a whole file. The files keep their order,
    # because xdist would start with the file with the most tests and end with a slow one on a single
    # processor.
    order = (*spread(WAITING_AT_A_TIME, "loadfile"), "--no-loadscope-reorder")
    return pytest("scenarios", *order, *tier("scenarios", whole), cwd="tests", quiet=False)


def on_the_embedded_server(_whole: bool) -> Tally:
    """Run the scenarios on the embedded server, each on one surface. All of them also
    run on the real server.
    """
    options = ("--server", "embedded", "--one-surface", *spread(WAITING_AT_A_TIME))
    tally = pytest("scenarios", *options, cwd="tests", quiet=False)
    # Tests that need more than the embedded server have run on the real one.
    tally.left_out.clear()
    return tally


Suite = Callable[[bool], Tally]
"""A function that runs a whole suite or its first tier."""

SUITES: dict[str, Suite] = {
    "rust": rust,
    # These run in parallel, the slowest first. They run in a worker, so that a test that hangs does not end
    # the others.
    "packages": lambda _: pytest("packages", *spread(1), cwd="tests"),
    "simulation": simulation,
    "threads": lambda _: workspace("threads"),
    "fuzz": lambda _: workspace("fuzz"),
    "harness": lambda whole: pytest(
        "unit", *spread(AT_A_TIME, "loadfile"), *tier("harness", whole), cwd="tests"
    ),
    "python": lambda whole: pytest(
        "tests", *spread(AT_A_TIME, "loadfile"), *tier("python", whole), cwd="bindings-python"
    ),
    "node": lambda _: node(),
    "coverage": coverage,
    # Six in parallel, because its tests mostly wait.
    "clients": lambda _: pytest("clients", *ENDING_WORKERS, *spread(6), cwd="tests"),
    "cli": lambda whole: pytest("cli", *spread(3), *tier("cli", whole), cwd="tests"),
    "scenarios": scenarios,
    "embedded": on_the_embedded_server,
}

# Suites that no other run includes.
APART: dict[str, Suite] = {
    "consumers": lambda _: pytest("consumers", *spread(AT_A_TIME, "loadfile"), cwd="tests", quiet=False),
    "worlds": lambda _: worlds(),
}

# Suites that need no part, because cargo builds what they run.
CARGO = {"rust", "worlds", "threads", "fuzz"}

# Stages run in sequence, and the suites of a stage in parallel. The Rust suite uses every processor by
# itself. The scenarios mostly wait, and the worlds need one processor.
STAGES = [
    ["rust"],
    ["packages", "simulation", "threads", "fuzz", "harness", "python", "node", "coverage", "clients", "cli"],
    ["scenarios", "worlds"],
    ["embedded", "consumers"],
]
