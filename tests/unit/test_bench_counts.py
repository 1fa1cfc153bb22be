"""Tests of the benchmark check: it lists each count that has changed, and fails if a count has grown."""

from __future__ import annotations

import counts

BASELINE: counts.Counts = {
    "queue": {"allocations": 20.0, "instructions": 1000},
    "pair": {"allocations": 80.0},
}


def test_unchanged_counts_are_not_listed() -> None:
    assert counts.moved(BASELINE, BASELINE) == []


def test_grown_counts_are_listed_and_fail() -> None:
    now: counts.Counts = {"queue": {"allocations": 21.0, "instructions": 1000}, "pair": {"allocations": 81.0}}
    (line,) = counts.moved(BASELINE, now)
    assert line.endswith("allocations 20 -> 21 (+5.0%)")
    assert counts.grown(line)


def test_shrunk_counts_are_listed_and_pass() -> None:
    now: counts.Counts = {"queue": {"allocations": 20.0, "instructions": 500}}
    (line,) = counts.moved(BASELINE, now)
    assert line.endswith("instructions 1,000 -> 500 (-50.0%)")
    assert not counts.grown(line)


def test_unavailable_counts_are_skipped() -> None:
    assert counts.moved(BASELINE, {"queue": {"allocations": 20.0}}) == []


def test_different_tool_versions_are_listed() -> None:
    baseline = {"rustc": "rustc 1.95.0", "libc": "glibc 2.36"}
    assert counts.differences(baseline, baseline | {"valgrind": "valgrind-3.19.0"}) == []
    (line,) = counts.differences(baseline, baseline | {"libc": "glibc 2.41"})
    assert "libc (glibc 2.36, here glibc 2.41)" in line
