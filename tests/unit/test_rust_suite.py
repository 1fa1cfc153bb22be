"""The runner of Rust tests names each test that fails, hangs or ends its process, and counts the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

import rust_suite
from harness.command import is_alive
from harness.steps import eventually


def executable(directory: Path, *lines: str) -> str:
    """Return a program that prints what Rust's test harness would print."""
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


def test_an_outcome_after_the_tests_output_is_read(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... a warning'", "echo more", "echo ok")
    assert rust_suite.run_tests(program, ["a"]).passed == 1


def test_a_test_that_hangs_is_ended_alone_with_what_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runner kills the test and its child process in another session. The later tests run."""
    started = tmp_path / "started"
    hangs = f"printf 'test b ... so far\\n'; setsid sleep 600 & echo $! > {started}; wait"
    program = executable(
        tmp_path,
        'for name in a b c d; do case " $* " in *" $name "*)',
        f"  if [ $name = b ]; then {hangs}; fi",
        '  echo "test $name ... ok"',
        "esac; done",
    )
    tally = rust_suite.run_tests(program, ["a", "b", "c", "d"], limit=5)
    assert (tally.passed, tally.failures) == (3, ["b (had not ended after 5 s)"])
    assert "test b ... so far" in capsys.readouterr().out
    eventually(lambda: not is_alive(int(started.read_text())), "the test's child process has ended")


def test_a_test_that_ends_the_process_is_named(tmp_path: Path) -> None:
    program = executable(
        tmp_path,
        'case " $* " in *" a "*) printf \'test a ... \'; kill -ABRT $$;; esac',
        "echo 'test b ... ok'",
    )
    tally = rust_suite.run_tests(program, ["a", "b"])
    assert (tally.passed, tally.failures) == (1, ["a (ended the process: -6)"])


def test_a_program_that_closes_its_output_and_goes_on_is_ended(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... ok'", "exec >&- 2>&-", "sleep 600")
    tally = rust_suite.run_tests(program, ["a"], limit=3)
    assert (tally.passed, tally.failures) == (1, [f"{program} (exit status -9)"])


def test_a_failure_without_a_failed_test_is_one(tmp_path: Path) -> None:
    program = executable(tmp_path, "echo 'test a ... ok'", "exit 3")
    assert rust_suite.run_tests(program, ["a"]).failures == [f"{program} (exit status 3)"]
