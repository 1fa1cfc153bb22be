"""Tests of `zklock run --once` and `--once-per`, and of `zklock once`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from harness.command import Command, Outcome, run
from harness.observer import Observer
from harness.server import Standalone


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Return the file to which a job writes a line per run."""
    return tmp_path / "runs"


def job(lines: Path, status: int = 0) -> list[str]:
    """Return the command of a job that writes a line and exits with this status."""
    return ["sh", "-c", f"echo ran >> {lines}; exit {status}"]


def count(lines: Path) -> int:
    """Return the number of times the job has run."""
    return len(lines.read_text().splitlines()) if lines.exists() else 0


def once(server: Standalone, path: str, *words: str) -> Outcome:
    """Execute `zklock run` with these arguments."""
    return run(server.hosts, "run", *words[: words.index("--")], path, *words[words.index("--") :])


def test_s821_a_command_runs_once(server: Standalone, observer: Observer, path: str, lines: Path) -> None:
    first = once(server, path, "--once", "monday", "--", *job(lines))
    assert (first.status, first.err) == (0, "")
    second = once(server, path, "--once", "monday", "--", *job(lines))
    assert (second.status, second.out) == (0, "")
    assert second.err == f'zklock: slot "monday" of "{path}" is recorded; the command is not run\n'
    reported = once(server, path, "--log", "json", "--once", "monday", "--", *job(lines))
    assert json.loads(reported.err)["event"] == "skipped"
    assert count(lines) == 1
    assert once(server, path, "--once", "tuesday", "--", *job(lines)).status == 0
    assert count(lines) == 2
    observer.assert_free(path)


def test_s821_a_command_that_fails_records_nothing(
    server: Standalone, observer: Observer, path: str, lines: Path
) -> None:
    for _ in range(2):
        assert once(server, path, "--once", "slot", "--", *job(lines, 3)).status == 3
    assert count(lines) == 2
    assert not observer.exists(f"{path}.once")
    assert once(server, path, "--once", "slot", "--", "kill-me-not-found").status == 127
    assert not observer.exists(f"{path}.once")


def test_s821_a_slot_that_is_recorded_at_the_start_runs_at_most_once(
    server: Standalone, path: str, lines: Path
) -> None:
    flags = ["--once", "slot", "--once-record", "start"]
    assert once(server, path, *flags, "--", *job(lines, 3)).status == 3
    assert once(server, path, *flags, "--", *job(lines, 3)).status == 0
    assert count(lines) == 1


def test_s821_once_per_period(server: Standalone, path: str, lines: Path) -> None:
    assert once(server, path, "--once-per", "365d", "--", *job(lines)).status == 0
    second = once(server, path, "--once-per", "365d", "--", *job(lines))
    assert second.status == 0
    assert "this period of 365d " in second.err
    assert count(lines) == 1
    shown = run(server.hosts, "once", path)
    assert shown.status == 0
    assert "recorded  period of 365d from 2" in shown.out


def test_s821_a_lock_that_is_lost_records_nothing(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", "--once", "slot", path, "--", "sleep", "60") as command:
        (node,) = observer.wait_queue(path, 1)
        observer.delete(f"{path}/{node}")
        assert command.wait().status == 79
    assert not observer.exists(f"{path}.once")


def test_s821_a_lock_that_is_taken_is_a_conflict(
    server: Standalone, observer: Observer, path: str, lines: Path
) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60"):
        observer.wait_queue(path, 1)
        assert once(server, path, "-n", "--once", "slot", "--", *job(lines)).status == 75
    assert count(lines) == 0


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--once", ""], "key: must not be empty"),
        (["--once", "a\nb"], "key: contains a control character"),
        (["--once-per", "500ms"], "must be at least 1s"),
        (["--once", "a", "--once-per", "1h"], "cannot be used with"),
        (["--once", "a", "-s"], "cannot be used with"),
        (["--once", "a", "--slots", "2"], "cannot be used with"),
        (["--once-record", "start"], "required"),
    ],
)
def test_s821_invalid_options(
    server: Standalone, path: str, lines: Path, flags: list[str], problem: str
) -> None:
    ended = once(server, path, *flags, "--", *job(lines))
    assert ended.status == 64
    assert problem in ended.err
    assert count(lines) == 0


def test_s821_a_record_that_may_not_be_read(
    server: Standalone, observer: Observer, path: str, lines: Path
) -> None:
    ours = make_digest_acl("app", "secret", all=True)
    # The parent directories have the default ACL.
    observer.create(path)
    observer.client.create(f"{path}.once", b"{}", acl=[ours])
    assert once(server, path, "--once", "slot", "--", *job(lines)).status == 77
    assert count(lines) == 0
    assert run(server.hosts, "once", path).status == 77
    # `ls` still shows the record of a free lock.
    shown = run(server.hosts, "ls", path)
    assert shown.status == 0
    assert shown.out.startswith(f"{path}\n  recorded  ")


def test_s821_a_record_is_shown_and_forgotten(server: Standalone, path: str, lines: Path) -> None:
    nothing = run(server.hosts, "once", path)
    assert (nothing.status, nothing.out) == (1, "")
    assert nothing.err == f"zklock: no slot of {path} is recorded\n"
    assert once(server, path, "--label", "nightly", "--once", "monday", "--", *job(lines)).status == 0
    shown = run(server.hosts, "once", path)
    assert shown.status == 0
    title, line = shown.out.splitlines()
    assert title == path
    assert line.startswith("  recorded  slot monday  at 2")
    assert "by nightly (" in line
    assert "  token " in line
    reported = json.loads(run(server.hosts, "once", "--json", path).out)
    assert (reported["path"], reported["node"], reported["slot"], reported["period"]) == (
        path,
        f"{path}.once",
        "monday",
        None,
    )
    assert reported["label"] == "nightly"
    forgotten = run(server.hosts, "once", "--forget", path)
    assert (forgotten.status, forgotten.out) == (0, f"deleted the record {path}.once: slot monday\n")
    again = run(server.hosts, "once", "--forget", path)
    assert (again.status, again.out) == (0, f"no slot of {path} is recorded\n")
    assert once(server, path, "--once", "monday", "--", *job(lines)).status == 0
    assert count(lines) == 2


def test_s821_ls_shows_records(server: Standalone, observer: Observer, path: str, lines: Path) -> None:
    for name in ("report", "clean-up"):
        assert once(server, f"{path}/{name}", "--once", "monday", "--", *job(lines)).status == 0
    one = run(server.hosts, "ls", f"{path}/report").out.splitlines()
    assert one[0] == f"{path}/report"
    assert one[1].startswith("  recorded  slot monday  at ")
    assert len(one) == 2
    with Command(server.hosts, "run", f"{path}/report", "--", "sleep", "60"):
        observer.wait_queue(f"{path}/report", 1)
        shown = run(server.hosts, "ls", "--recursive", path).out
        heads = [line.split()[0] for line in shown.splitlines()]
        assert heads == [f"{path}/clean-up", "recorded", f"{path}/report", "holds", "recorded"]
        reported = json.loads(run(server.hosts, "ls", "--json", "--recursive", path).out)
        assert [one["path"] for one in reported] == [f"{path}/report"]
