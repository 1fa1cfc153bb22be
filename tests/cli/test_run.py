"""Tests of `zklock run`: exit statuses, signals, and the environment of the command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from harness.command import Command, Log, is_alive, run, write_credentials
from harness.observer import Observer
from harness.ports import free_port
from harness.server import Standalone
from harness.steps import eventually

FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of this test's jobs."""
    return Log(tmp_path)


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_s540_the_commands_status(server: Standalone, observer: Observer, path: str, status: int) -> None:
    assert run(server.hosts, "run", path, "--", "sh", "-c", f"exit {status}").status == status
    observer.assert_free(path)


@pytest.mark.parametrize(
    ("asked", "granted", "words"), [("1ms", "400ms", "stays taken"), ("1h", "1m", "sooner"), ("2s", "", "")]
)
def test_s690_a_session_timeout_that_the_servers_changed(
    server: Standalone, path: str, asked: str, granted: str, words: str
) -> None:
    ended = run(server.hosts, "run", "--session-timeout", asked, path, "--", "true")
    assert ended.status == 0
    if granted:
        assert f"granted a session timeout of {granted}, not {asked}" in ended.err
        assert words in ended.err
    else:
        assert ended.err == ""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_s541_a_command_killed_by_a_signal(server: Standalone, path: str, name: str) -> None:
    number = getattr(signal, name)
    ended = run(server.hosts, "run", path, "--", "sh", "-c", f"kill -{number} $$")
    assert ended.status == 128 + number


def test_s542_a_taken_lock(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        observer.wait_queue(path, 1)
        at_once = run(server.hosts, "run", "-n", path, "--", "echo", "ran")
        assert (at_once.status, at_once.out) == (75, "")
        assert re.search(r"is taken by sleep \(.+, process \d+\), in the queue for \d+", at_once.err), (
            at_once.err
        )
        outcome = run(server.hosts, "run", "-n", "--log", "json", path, "--", "true")
        event = json.loads(outcome.err)
        assert (event["event"], set(event)) == ("failed", {"time", "event", "message"})
        assert "is taken by sleep" in event["message"]
        # 2.5 seconds are enough to connect on a busy machine. Before `zklock` has connected, it cannot know
        # that the lock is taken.
        in_time = run(server.hosts, "run", "-w", "2.5", path, "--", "echo", "ran")
        assert (in_time.status, in_time.out) == (75, "")
        assert "sleep" in in_time.err, "the message names the holder"
        assert run(server.hosts, "run", "-w", "2500ms", "-E", "9", path, "--", "true").status == 9
        quiet = run(server.hosts, "run", "-n", "-E", "0", path, "--", "echo", "ran")
        assert (quiet.status, quiet.out, quiet.err) == (0, "", ""), "nothing is printed"
        assert len(observer.queue(path)) == 1
        holder.signal(signal.SIGTERM)
        assert holder.wait().status == 128 + signal.SIGTERM
    assert run(server.hosts, "run", "-n", path, "--", "true").status == 0


def test_s543_no_server(path: str) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    refused = run(nowhere, "run", "--connect-timeout", "0.5", path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (69, "")
    assert nowhere in refused.err
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        assert run(hosts, "run", "-w", "0.5", path, "--", "true").status == 69


def test_s544_credentials(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    write_credentials(right, "# of the batch jobs\ndigest:app:secret\n")
    write_credentials(wrong, "digest:app:guess\n")
    # In a directory with the ACL `creator`, other users can neither list nor queue.
    made = run(server.hosts, "run", "--auth-file", str(right), "--acl", "creator", path, "--", "true")
    assert made.status == 0, made.err
    refused = run(server.hosts, "run", "--auth-file", str(wrong), path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (77, "")
    assert "guess" not in refused.err
    by_environment = {"ZKLOCK_AUTH_FILE": str(right), "ZKLOCK_ACL": "creator"}
    assert run(server.hosts, "run", path, "--", "true", env=by_environment).status == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "/a"],
        ["run", "--bogus", "/a", "--", "true"],
        ["run", "-n", "-w", "1", "/a", "--", "true"],
        ["run", "-x", "-s", "/a", "--", "true"],
        ["run", "--slots", "0", "/a", "--", "true"],
        ["run", "-w", "soon", "/a", "--", "true"],
        ["run", "no-slash", "--", "true"],
        ["run", "--auth-file", "/nonexistent", "/a", "--", "true"],
        ["run", "--kill-after", "9", "/a", "--", "true"],
        ["bogus"],
        [],
    ],
)
def test_s545_wrong_usage(server: Standalone, words: list[str]) -> None:
    refused = run(server.hosts, *words)
    assert (refused.status, refused.out) == (64, "")
    # Without arguments, `zklock` prints its usage.
    assert refused.err.startswith("zklock: " if words else "Distributed locks")
    assert "error:" not in refused.err


def test_s546_a_command_that_cannot_be_run(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert run(server.hosts, "run", path, "--", str(plain)).status == 126
    missing = run(server.hosts, "run", path, "--", "/nonexistent/command")
    assert missing.status == 127
    assert "/nonexistent/command" in missing.err
    observer.assert_free(path)


@pytest.mark.parametrize("name", FORWARDED)
def test_s547_a_signal_while_waiting(server: Standalone, observer: Observer, path: str, name: str) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        (first,) = observer.wait_queue(path, 1)
        with Command(server.hosts, "run", path, "--", "echo", "ran") as waiter:
            observer.wait_queue(path, 2)
            waiter.signal(getattr(signal, name))
            ended = waiter.wait()
        assert (ended.status, ended.out) == (128 + getattr(signal, name), "")
        # The waiter's session is closed before its process exits.
        assert observer.queue(path) == [first]
        assert holder.process.poll() is None


@pytest.mark.parametrize("name", FORWARDED)
def test_s548_a_signal_while_running(
    server: Standalone, observer: Observer, path: str, log: Log, name: str
) -> None:
    with Command(server.hosts, "run", path, "--", *log.job("child")) as command:
        assert len({event.pid for event in log.wait("start", 2)}) == 2
        command.signal(getattr(signal, name))
        assert command.wait().status == 3, "the exit status is not the job's"
        assert len({event.pid for event in log.wait(name, 2)}) == 2, "the whole group receives the signal"
    assert len(log.events(name)) == 2, "each process receives the signal once"
    observer.assert_free(path)


def test_s549_the_commands_environment(server: Standalone, observer: Observer, path: str) -> None:
    names = ("PATH", "NODE", "TOKEN", "SESSION", "MODE")
    script = "; ".join(f"echo $ZKLOCK_{name}" for name in names)
    with Command(server.hosts, "run", "-s", path, "--", "sh", "-c", f"{script}; read end") as command:
        (node,) = observer.wait_queue(path, 1)
        full = f"{path}/{node}"
        owner, token = observer.owner(full), observer.czxid(full)
        command.type("\n")
        outcome = command.wait().out.split()
    assert outcome == [path, full, str(token), hex(owner), "read"]


def test_s550_twenty_cron_jobs(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    jobs = [Command(server.hosts, "run", path, "--", *log.job("0.05")) for _ in range(20)]
    for job in jobs:
        with job:
            ended = job.wait(60)
            assert ended.status == 0, ended.err
    events = [(event.event, event.pid) for event in log.events("start", "end")]
    assert len(events) == 40
    for (began, one), (ended_, other) in zip(events[::2], events[1::2], strict=True):
        assert (began, ended_, one) == ("start", "end", other), "two jobs overlap"
    observer.assert_free(path)


def test_s553_a_killed_parent(server: Standalone, path: str, log: Log) -> None:
    with Command(server.hosts, "run", path, "--", *log.job("-SIGTERM")) as command:
        (started,) = log.wait("start")
        assert is_alive(started.pid)
        command.signal(signal.SIGKILL)
        eventually(lambda: not is_alive(started.pid), "the command ends with its parent")


def test_s554_an_ignored_signal(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    # `nohup` and shells without job control start commands with ignored signals.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = Command(server.hosts, "run", path, "--", *log.job("0.6"))
    finally:
        signal.signal(signal.SIGHUP, before)
    with command:
        log.wait("start")
        command.signal(signal.SIGHUP)
        assert command.wait().status == 0
    assert log.events("SIGHUP") == []


def test_s561_readers_and_permits(server: Standalone, observer: Observer, path: str) -> None:
    def refused(*words: str) -> bool:
        status = run(server.hosts, "run", "-n", *words, "--", "true").status
        assert status in (0, 75)
        return status == 75

    with Command(server.hosts, "run", "-s", path, "--", "sleep", "60"):
        observer.wait_queue(path, 1)
        assert [refused(*mode, path) for mode in (["-s"], ["-x"], [])] == [False, True, True]
    permits = f"{path}-permits"
    with (
        Command(server.hosts, "run", "--slots", "2", permits, "--", "sleep", "60"),
        Command(server.hosts, "run", "--slots", "2", permits, "--", "sleep", "60") as second,
    ):
        observer.wait_queue(f"{permits}/leases", 2)
        assert refused("--slots", "2", permits)
        assert run(server.hosts, "run", "-n", "--slots", "3", permits, "--", "true").status == 64
        second.signal(signal.SIGTERM)
        second.wait()
        assert not refused("--slots", "2", permits)


def test_s562_no_argument_is_published(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", path, "--", "sh", "-c", ": hidden; exec sleep 60"):
        (node,) = observer.wait_queue(path, 1)
        data = observer.client.get(f"{path}/{node}")[0]
    assert b'"sh"' in data
    assert b"hidden" not in data
    assert os.environ.get("ZKLOCK_AUTH_FILE") is None
