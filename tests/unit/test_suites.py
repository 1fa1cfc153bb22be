"""A suite that is killed still reports what passed, and which tests had not ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import suites
from suites import Tally

# Seconds. Long enough for all but the one that hangs, on a machine that has much else to do.
LIMIT = 40.0

PYTHON_TESTS = """
import time
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def fragile():
    yield
    assert False
def test_fails_behind(fragile): pass
def test_hangs(): time.sleep(600)
def test_never(): pass
"""

NODE_TESTS = """
import test from 'node:test'
test('passes', () => {})
test('fails', () => { throw new Error('on purpose') })
test('is skipped', { skip: true }, () => {})
test('hangs', () => new Promise((resolve) => setTimeout(resolve, 600_000)))
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A directory with tests, one of which hangs."""
    (tmp_path / "test_planted.py").write_text(PYTHON_TESTS)
    (tmp_path / "planted.test.mjs").write_text(NODE_TESTS)
    return tmp_path


def test_a_suite_that_is_killed_reports_what_passed(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[Callable[[], Tally]] = [
        lambda: suites.pytest("test_planted.py", cwd=planted, limit=LIMIT),
        lambda: suites.pytest("test_planted.py", "-n", "1", cwd=planted, limit=LIMIT),
        lambda: suites.node("node", "--test", suite="planted", cwd=planted, limit=LIMIT),
    ]
    with ThreadPoolExecutor() as pool:
        alone, spread, node = pool.map(lambda run: run(), runs)
    for tally in (alone, spread):
        assert tally.passed == 1
        assert tally.failures == [
            "test_planted.py::test_fails",
            "test_planted.py::test_fails_behind",
            "test_planted.py::test_hangs (had not ended when test_planted.py was killed)",
            "1 tests that test_planted.py never began: test_planted.py::test_never",
        ]
    assert node.passed == 1
    assert node.failures == [
        "planted.test.mjs::fails",
        "planted.test.mjs::hangs (had not ended when planted was killed)",
    ]
    assert capsys.readouterr().out.count(f"KILLED after {LIMIT:.0f} s") == len(runs)


def test_a_suite_that_ends_reports_the_same(planted: Path) -> None:
    chosen = ("-k", "not hangs")
    tally = suites.pytest("test_planted.py", *chosen, cwd=planted)
    assert tally.passed == 2
    assert tally.failures == ["test_planted.py::test_fails", "test_planted.py::test_fails_behind"]


def test_a_suite_that_cannot_begin_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name")
    assert suites.pytest("test_broken.py", cwd=tmp_path).failures == ["test_broken.py"]
    assert suites.pytest("test_missing.py", cwd=tmp_path).failures == ["test_missing.py (exit status 4)"]
    (tmp_path / "broken.test.mjs").write_text("import 'nothing-of-that-name'")
    assert suites.node("node", "--test", suite="broken", cwd=tmp_path).failures == ["broken.test.mjs"]


def test_a_suite_that_ran_no_test_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "none.test.mjs").write_text("import test from 'node:test'\ntest.skip('one', () => {})")
    assert suites.node("node", "--test", suite="none", cwd=tmp_path).failures == ["none ran no test"]
