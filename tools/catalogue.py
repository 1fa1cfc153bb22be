"""All test suites, and how to run them."""

from __future__ import annotations

from collections.abc import Callable

from parts import BUILT, PARTS
from suites import PYTHON, ROOT, Tally, cargo, node, pytest, second_tier, step

SEEDS = 500
"""Number of simulated seeds. `make soak` also runs 10,000 other seeds each day."""

# Timeouts in seconds: for suites that compile everything or explore millions of states, and for single tests
# that compile.
LONG_LIMIT, LONG_TEST_LIMIT = 40 * 60.0, 960
TESTS = ROOT / "tests"

ENDING_WORKERS = ("-o", "timeout_method=thread")
"""Options for tests of third-party code. A timeout ends the process, so that the test cannot hang again."""

SETTINGS = ("opt-level=3", "debug-assertions=false", "overflow-checks=false")
OPTIMIZED = [word for one in SETTINGS for word in ("--config", f"profile.dev.package.zklock.{one}")]
"""Options to compile the core with optimizations, but not its dependencies, which are already built."""


def tier(suite: str, whole: bool) -> list[str]:
    """Return the pytest options to run a whole suite or its first tier."""
    patterns = () if whole else second_tier(suite)
    return [f"--deselect={one}" if "::" in one else f"--ignore-glob={one}" for one in patterns]


def spread(number: int, dist: str = "loadfile") -> list[str]:
    """Return the options to run this many tests in parallel."""
    return ["-n", f"{number}", "--dist", dist]


def rust(whole: bool) -> Tally:
    """Run the Rust tests and the examples of the documentation."""
    skipped = [word for name in (() if whole else second_tier("rust")) for word in ("--skip", name)]
    options = ("--test-threads=3", "--exact", *skipped)
    # Build the whole workspace, as tools/parts.mk does, so that most of the build is shared.
    tally = cargo("rust", "--workspace", "--tests", "--", *options, limit=LONG_LIMIT)
    tally.add(cargo("documentation examples", "--doc", "-p", "zklock", "-p", "zklock-embedded"))
    return tally


def worlds(_whole: bool) -> Tally:
    """Run the tests that are slow without optimizations.

    They use only one processor, because other suites run at the same time.
    """
    which = ("--workspace", "--test", "queue_explorer", "--test", "queue_costs")
    options = ("--ignored", "--test-threads=1")
    return cargo("worlds", *OPTIMIZED, *which, "--", *options, limit=LONG_LIMIT, program_limit=2000)


def simulation(_whole: bool) -> Tally:
    """Run the whole stack in simulated time.

    A seed must always have the same history, and the first seeds must have no violation. Two programs then
    check the histories of these seeds again: our history checker and Porcupine.
    """
    manifest = ("--release", "--manifest-path", str(TESTS / "simulation" / "Cargo.toml"))
    histories, name = str(BUILT / "simulated.jsonl"), f"simulation: {SEEDS} seeds"
    tally = cargo("simulation: a seed is one history", *manifest)
    seeds = ["--seeds", f"{SEEDS}", "--histories", histories]
    tally.add(step(name, ["cargo", "run", "--quiet", "--locked", *manifest, "--", *seeds], limit=1200))
    if PARTS["porcupine"].lacking() is None:
        judge = [PYTHON, "-m", "harness.porcupine", "--at-least", f"{SEEDS}", histories]
        tally.add(step(f"simulation: both judges on {SEEDS} seeds", judge, cwd=TESTS, limit=1200))
    else:
        tally.left_out[PARTS["porcupine"].shown] += 1
    return tally


def scenarios(whole: bool) -> Tally:
    """Run the scenarios on real servers. In the first tier, each runs on only one surface (language API)."""
    # All tests of a file share its servers, so one process runs a whole file. Keep the order of the files:
    # xdist would sort them by their number of tests, so that a slow file could run alone at the end. Each
    # test mostly waits, and needs a quarter of a processor.
    order = (*spread(4), "--no-loadscope-reorder", *([] if whole else ["--rotate-surfaces"]))
    return pytest("scenarios", *order, *tier("scenarios", whole), quiet=False)


def on_the_embedded_server(_whole: bool) -> Tally:
    """Run each scenario on the embedded server, on one surface (language API)."""
    options = ("--server", "embedded", "--one-surface", *spread(4, "worksteal"))
    tally = pytest("scenarios", *options, quiet=False)
    # Do not report the tests that the embedded server cannot run, because they run on the real one.
    tally.left_out.clear()
    return tally


Suite = Callable[[bool], Tally]
"""A function that runs a whole suite or its first tier."""

SUITES: dict[str, Suite] = {
    "rust": rust,
    # These suites run in parallel, the slowest first. Their tests run in a worker process, so that a test
    # that hangs does not end the other tests.
    "packages": lambda _: pytest("packages", *spread(1), test_limit=LONG_TEST_LIMIT),
    "simulation": simulation,
    "threads": lambda _: cargo("threads", "--manifest-path", f"{TESTS}/threads/Cargo.toml"),
    "fuzz": lambda _: cargo("fuzz", "--manifest-path", f"{TESTS}/fuzz/Cargo.toml"),
    "harness": lambda whole: pytest("unit", *spread(2), *tier("harness", whole), test_limit=LONG_TEST_LIMIT),
    "python": lambda whole: pytest("tests", *spread(2), *tier("python", whole), cwd="bindings-python"),
    "node": lambda _: node(),
    "coverage": lambda _: step("scenario coverage", [PYTHON, "check_coverage.py"], cwd=TESTS, limit=120),
    # Run six of these tests in parallel, because they mostly wait.
    "clients": lambda _: pytest("clients", *ENDING_WORKERS, *spread(6, "worksteal")),
    "cli": lambda whole: pytest("cli", *spread(3, "worksteal"), *tier("cli", whole)),
    "scenarios": scenarios,
    "embedded": on_the_embedded_server,
}

# Suites that no other run includes.
APART: dict[str, Suite] = {
    "consumers": lambda _: pytest("consumers", *spread(2), quiet=False, test_limit=LONG_TEST_LIMIT),
    "worlds": worlds,
}

# Suites that need no part, because cargo builds what they run.
CARGO = {"rust", "worlds", "threads", "fuzz"}

# Stages run in sequence, and the suites of a stage run in parallel. The suite `rust` uses all processors, so
# it runs alone. `scenarios` can run next to `worlds`, because its tests mostly wait and `worlds` uses only
# one processor.
STAGES = [
    ["rust"],
    ["packages", "simulation", "threads", "fuzz", "harness", "python", "node", "coverage", "clients", "cli"],
    ["scenarios", "worlds"],
    ["embedded", "consumers"],
]
