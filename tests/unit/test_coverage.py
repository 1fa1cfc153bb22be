"""The coverage check must notice what it is there for."""

from __future__ import annotations

from check_coverage import gaps
from harness.contract import Scenario
from harness.surfaces import SURFACES

ROWS = {7: Scenario(7, "a time-out", "is kept", {"rust": "no"})}
COMPLETE: list[tuple[str, str | None]] = [("test_s07_x", name) for name in SURFACES if name != "rust"]


def test_complete_is_complete() -> None:
    assert gaps(COMPLETE, ROWS) == []


def test_a_missing_surface_is_noticed() -> None:
    assert gaps(COMPLETE[1:], ROWS) == [f"S7 a time-out: no test on {COMPLETE[0][1]}"]


def test_an_unknown_number_is_noticed() -> None:
    assert "no S8" in gaps([*COMPLETE, ("test_s08_x", "node")], ROWS)[0]


def test_a_test_without_number_is_noticed() -> None:
    assert "no number" in gaps([*COMPLETE, ("test_x", "node")], ROWS)[0]


def test_a_test_on_no_surface_is_noticed() -> None:
    assert "no surface" in gaps([*COMPLETE, ("test_s07_x", None)], ROWS)[0]


def test_an_exempt_surface_is_not_tested_in_secret() -> None:
    assert "does not apply" in gaps([*COMPLETE, ("test_s07_x", "rust")], ROWS)[0]
