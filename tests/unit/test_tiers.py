"""The first tier runs every scenario once. Each test that it omits exists and has a reason."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tiers
from catalogue import APART, STAGES, SUITES
from harness import contract
from harness.paths import REPOSITORY, TESTS
from harness.surfaces import SURFACES


def collected(directory: Path, *options: str) -> list[str]:
    """Return the tests that pytest collects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    env = {"PYTHONPATH": str(REPOSITORY / "tools" / "plugins"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_scenario_is_in_the_first_tier_on_one_surface() -> None:
    ids = collected(TESTS, "scenarios", "-p", "first_tier", "--first-tier=scenarios")
    surfaces: dict[int, set[str]] = {}
    for one in ids:
        number = contract.number_of(one.partition("::")[2])
        assert number is not None
        surfaces.setdefault(number, set()).add(one.partition("[")[2].rstrip("]").split("-")[0])
    rows = contract.scenarios()
    assert set(surfaces) == {number for number, row in rows.items() if len(row.exempt) < len(SURFACES)}
    assert all(len(names) == 1 for names in surfaces.values())
    counts = Counter(name for names in surfaces.values() for name in names)
    # Each surface has about a quarter of the scenarios. Some scenarios do not apply to every surface.
    assert min(counts[name] for name in SURFACES) >= len(surfaces) / len(SURFACES) / 2, counts


@pytest.mark.parametrize(
    ("suite", "directory", "tests"),
    [("harness", TESTS, "unit"), ("python", REPOSITORY / "bindings-python", "tests")],
)
def test_what_is_left_out_exists(suite: str, directory: Path, tests: str) -> None:
    ids = collected(directory, tests)
    second = tiers.Second.of(suite)
    assert second.idle(ids) == []
    left = collected(directory, tests, "-p", "first_tier", f"--first-tier={suite}")
    assert left == [one for one in ids if not second.has(one)]
    assert len(left) > len(ids) / 2


def test_each_has_a_reason() -> None:
    for suite in tiers.suites():
        assert suite in SUITES | APART, suite
        assert all(len(reason) > 20 for reason in tiers.Second.of(suite).reasons.values())


def test_every_suite_has_a_stage() -> None:
    staged = [name for stage in STAGES for name in stage]
    assert sorted(staged) == sorted(SUITES | APART)
