"""Every suite, and how it runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from parts import BUILT, PARTS, lacking
from rust_suite import rust, worlds
from suites import PYTHON, ROOT, Tally, node, pytest, run

SEEDS = 500
"""Simulated worlds. `make soak` has 10,000, others each day."""

SIMULATION_LIMIT = 1200.0
"""Seconds to build the simulation and to run it."""

AT_A_TIME = 2
"""How many tests of a suite run at the same time."""

WAITING_AT_A_TIME = 4
"""The same for the scenarios, which wait more than they work: each needs a quarter of a processor."""

ENDING_WORKERS = ("-o", "timeout_method=thread")
"""For tests that are not ours: what hangs may hang again when it is interrupted. Its worker ends with it."""


def tier(suite: str, whole: bool) -> tuple[str, ...]:
    """The options with which pytest runs a suite: the whole of it, or its first tier."""
    return () if whole else ("-p", "first_tier", f"--first-tier={suite}")


def simulation(_whole: bool) -> Tally:
    """The whole stack in simulated time: a seed is one history, and the first ones have no violation.

    Two judges read those histories once more: our checker, and Porcupine.
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
"""Seconds to build a workspace of its own, and to run its tests."""


def workspace(name: str) -> Tally:
    """The tests of a workspace of its own, by its directory below tests."""
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
    """Every scenario has a test in every language."""
    code, text = run([PYTHON, "check_coverage.py"], cwd=ROOT / "tests", limit=120, quiet=True)
    if code != 0:
        print(text, flush=True)
    return Tally(passed=1) if code == 0 else Tally(failures=["scenario coverage"])


def spread(number: int, dist: str = "worksteal") -> tuple[str, ...]:
    """So many tests at a time."""
    return ("-n", f"{number}", "--dist", dist)


def scenarios(whole: bool) -> Tally:
    """The scenarios on real servers: in the first tier each on one surface, in turn."""
    # All tests of a file share its servers, so one process runs a file. The files stay in order: xdist would
    # begin with the most tests, and end with a file of few that take long, on one processor.
    order = (*spread(WAITING_AT_A_TIME, "loadfile"), "--no-loadscope-reorder")
    return pytest("scenarios", *order, *tier("scenarios", whole), cwd="tests", quiet=False)


def on_the_embedded_server(_whole: bool) -> Tally:
    """The scenarios once more, each on one surface: all of them have run on the real server."""
    options = ("--server", "embedded", "--one-surface", *spread(WAITING_AT_A_TIME))
    tally = pytest("scenarios", *options, cwd="tests", quiet=False)
    # Tests that need more than that server has have run on the real one.
    tally.left_out.clear()
    return tally


Suite = Callable[[bool], Tally]
"""Runs a suite: the whole of it, or its first tier."""

SUITES: dict[str, Suite] = {
    "rust": rust,
    # Beside each other, those that take longest first.
    # In a worker, so that one test that hangs does not end the others.
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
    # Six at a time, for its tests sleep most of the time.
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

# Suites that need no part: cargo builds what they run.
CARGO = {"rust", "worlds", "threads", "fuzz"}

# Stages run one after the other, the suites of a stage beside each other. Rust uses every processor by
# itself. The scenarios mostly wait, and the worlds need one processor.
STAGES = [
    ["rust"],
    ["packages", "simulation", "threads", "fuzz", "harness", "python", "node", "coverage", "clients", "cli"],
    ["scenarios", "worlds"],
    ["embedded", "consumers"],
]
