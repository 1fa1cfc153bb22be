"""The first tier (`make test`) runs every scenario once. Each omitted test exists and has a reason."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from catalogue import APART, STAGES, SUITES, tier
from harness import contract
from harness.paths import REPOSITORY, TESTS
from harness.surfaces import SURFACES
from suites import SECOND_TIER, second_tier


def collected(directory: Path, *options: str) -> list[str]:
    """Return the tests that pytest collects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_scenario_is_in_the_first_tier_on_one_surface() -> None:
    ids = collected(TESTS, "scenarios", "--rotate-surfaces", *tier("scenarios", whole=False))
    surfaces: dict[int, set[str]] = {}
    for one in ids:
        number = contract.number_of(one.partition("::")[2])
        assert number is not None
        surfaces.setdefault(number, set()).add(one.partition("[")[2].rstrip("]").split("-")[0])
    rows = contract.scenarios()
    assert set(surfaces) == {number for number, row in rows.items() if len(row.exempt) < len(SURFACES)}
    assert all(len(names) == 1 for names in surfaces.values())
    counts = Counter(name for names in surfaces.values() for name in names)
    # Each surface (language API) runs about a quarter of the scenarios. The check requires half of that,
    # because some scenarios do not apply to every surface.
    assert min(counts[name] for name in SURFACES) >= len(surfaces) / len(SURFACES) / 2, counts


@pytest.mark.parametrize(
    ("suite", "directory", "tests"),
    [
        ("harness", TESTS, "unit"),
        ("cli", TESTS, "cli"),
        ("python", REPOSITORY / "bindings-python", "tests"),
    ],
)
def test_what_is_left_out_exists(suite: str, directory: Path, tests: str) -> None:
    every = collected(directory, tests)
    options = tier(suite, whole=False)
    assert len(options) == len(second_tier(suite)) > 0
    left = collected(directory, tests, *options)
    assert len(every) / 2 < len(left) < len(every)
    for pattern in second_tier(suite):
        assert pattern in every if "::" in pattern else any(directory.glob(pattern)), pattern


def test_each_has_a_reason() -> None:
    for suite, reasons in tomllib.loads(SECOND_TIER.read_text()).items():
        assert suite in SUITES | APART, suite
        assert all(len(reason) > 20 for reason in reasons.values())


def test_every_suite_has_a_stage() -> None:
    staged = [name for stage in STAGES for name in stage]
    assert sorted(staged) == sorted(SUITES | APART)
