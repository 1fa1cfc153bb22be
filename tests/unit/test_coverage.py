"""Tests of the coverage check, which finds missing tests and tests without an assertion."""

from __future__ import annotations

from pathlib import Path

import pytest

from check_coverage import gaps
from harness.assertions import Sources
from harness.contract import Scenario
from harness.paths import TESTS
from harness.surfaces import SURFACES

ROWS = {7: Scenario(7, "a time-out", "is kept", {"rust": "no"})}
COMPLETE: list[tuple[str, str | None]] = [("test_s07_x", name) for name in SURFACES if name != "rust"]


def test_complete_coverage_has_no_gaps() -> None:
    assert gaps(COMPLETE, ROWS) == []


def test_a_missing_surface_is_noticed() -> None:
    assert gaps(COMPLETE[1:], ROWS) == [f"S7 a time-out: no test on {COMPLETE[0][1]}"]


def test_an_unknown_number_is_noticed() -> None:
    assert "no S8" in gaps([*COMPLETE, ("test_s08_x", "node")], ROWS)[0]


def test_a_test_without_number_is_noticed() -> None:
    assert "no number" in gaps([*COMPLETE, ("test_x", "node")], ROWS)[0]


def test_a_test_on_no_surface_is_noticed() -> None:
    assert "no surface" in gaps([*COMPLETE, ("test_s07_x", None)], ROWS)[0]


def test_a_test_on_an_exempt_surface_is_noticed() -> None:
    assert "does not apply" in gaps([*COMPLETE, ("test_s07_x", "rust")], ROWS)[0]


HARNESS = """
class Answer:
    def expect(self, event): assert self.line() == event
    def line(self): raise Unanswered("no answer")
    def wait(self): return True
    def loop(self): return self.loop()

class Watch:
    def wait(self): raise AssertionError("in vain")

def started():
    answer = Answer()
    assert answer is not None
    return answer

def holding():
    started().expect("acquired")
"""


@pytest.mark.parametrize(
    ("body", "asserts"),
    [
        ("assert started()", True),
        ("with pytest.raises(ValueError): started()", True),
        ("raise AssertionError('not here')", True),
        ("holding()", True),
        ("started().expect('acquired')", True),
        ("[answer.expect('acquired') for answer in several()]", True),
        ("own()", True),
        ("pass", False),
        ("started()", False),
        ("started().line()", False),
        # `started` returns an `Answer`, whose `wait` has no assertion. `Watch.wait` has one.
        ("started().wait()", False),
        ("started().loop()", False),
        ("assert started() is not None", False),
        ("unknown()", False),
        ("def never(): assert False", False),
    ],
)
def test_a_test_that_asserts_nothing_is_noticed(tmp_path: Path, body: str, asserts: bool) -> None:
    for part in ("harness", "scenarios"):
        (tmp_path / part).mkdir()
    (tmp_path / "harness" / "steps.py").write_text(HARNESS)
    source = f"from harness.steps import holding, started\ndef own(): assert True\ndef test_s07_x(): {body}\n"
    if body.startswith(("with", "def")):
        source = source.replace(f": {body}", f":\n    {body}")
    (tmp_path / "scenarios" / "test_x.py").write_text(source)
    assert Sources(tmp_path).silent() == ([] if asserts else ["test_s07_x asserts nothing"])


def test_every_scenario_asserts() -> None:
    assert Sources(TESTS).silent() == []
