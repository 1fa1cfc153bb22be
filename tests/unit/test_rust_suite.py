"""Rust tests share a process: what fails in it, hangs or ends it is named, and the rest counts."""

from __future__ import annotations

from pathlib import Path

import rust_suite


def executable(directory: Path, *lines: str) -> str:
    """A program that prints what Rust's test harness would."""
    program = directory / "tests"
    program.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    program.chmod(0o755)
    return str(program)


def test_what_passes_and_what_fails(tmp_path: Path) -> None:
    program = executable(
        tmp_path,
        "echo 'test a ... ok'",
        "echo 'test b ... FAILED'",
        "echo 'test c - should panic ... ok'",
        "exit 101",
    )
    tally = rust_suite.run_tests(program, ["a", "b", "c"])
    assert (tally.passed, tally.failures) == (2, ["b"])


def test_an_outcome_behind_what_the_test_prints(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... a warning'", "echo more", "echo ok")
    assert rust_suite.run_tests(program, ["a"]).passed == 1


def test_a_test_that_hangs_is_named_and_ended(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... ok'", "printf 'test b ... '", "sleep 600")
    tally = rust_suite.run_tests(program, ["a", "b", "c"], limit=5)
    assert tally.passed == 1
    assert tally.failures == [
        "b (had not ended after 5 s)",
        "1 tests behind it, which never began: c",
    ]


def test_a_test_that_ends_the_process_is_named(tmp_path: Path) -> None:
    program = executable(tmp_path, "printf 'test a ... '", "kill -ABRT $$")
    assert rust_suite.run_tests(program, ["a"]).failures == ["a (ended the process: -6)"]


def test_a_failure_without_a_failed_test_is_one(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... ok'", "exit 3")
    assert rust_suite.run_tests(program, ["a"]).failures == [f"{program} (exit status 3)"]
