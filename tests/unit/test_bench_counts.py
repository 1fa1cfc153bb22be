"""The check of benchmark counts names each count beyond its limit, and fails if the count has grown."""

from __future__ import annotations

import counts

BASELINE: counts.Counts = {
    "queue": {"allocations": 20.0, "instructions": 1000},
    "pair": {"allocations": 80.0},
}


def test_what_stays_is_not_named() -> None:
    assert counts.moved(BASELINE, BASELINE) == []


def test_what_has_grown_is_named_and_fails() -> None:
    now: counts.Counts = {"queue": {"allocations": 21.0, "instructions": 1000}, "pair": {"allocations": 81.0}}
    (line,) = counts.moved(BASELINE, now)
    assert line.endswith("allocations 20 -> 21 (+5.0%)")
    assert counts.grown(line)


def test_what_has_shrunk_is_named_and_does_not_fail() -> None:
    now: counts.Counts = {"queue": {"allocations": 20.0, "instructions": 500}}
    (line,) = counts.moved(BASELINE, now)
    assert line.endswith("instructions 1,000 -> 500 (-50.0%)")
    assert not counts.grown(line)


def test_what_the_machine_cannot_count_is_left_out() -> None:
    assert counts.moved(BASELINE, {"queue": {"allocations": 20.0}}) == []


def test_other_tools_are_named() -> None:
    baseline = {"rustc": "rustc 1.95.0", "libc": "glibc 2.36"}
    assert counts.differences(baseline, baseline | {"valgrind": "valgrind-3.19.0"}) == []
    (line,) = counts.differences(baseline, baseline | {"libc": "glibc 2.41"})
    assert "libc (glibc 2.36, here glibc 2.41)" in line
