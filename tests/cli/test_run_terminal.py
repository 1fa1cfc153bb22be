"""Tests of `zklock run` on a terminal, in a shell with job control."""

from __future__ import annotations

import shlex
import shutil
import time
from pathlib import Path

import pytest

from cli.lag import Lag
from harness.built import require
from harness.command import Log, state
from harness.observer import Observer
from harness.paths import COMMAND
from harness.server import Standalone
from harness.steps import eventually
from harness.terminal import CTRL_C, CTRL_Z, Shell, shell

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def line(path: str, words: list[str], *options: str) -> bytes:
    """Return the command line to type, which prints the exit status at the end."""
    words = [str(COMMAND), "run", *options, path, "--", *words]
    return shlex.join(words).encode() + b"; echo status $((100+$?))\n"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of this test's jobs."""
    require("command")
    return Log(tmp_path)


def test_s559_ctrl_z(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    with shell(server.hosts) as user:
        user.type(line(path, log.job("tick")))
        (started,) = log.wait("start")
        user.type(CTRL_Z)
        user.wait("Stopped")
        eventually(lambda: state(started.pid) == "T", "the command is stopped")
        before = len(log.events("tick"))
        user.type(b"fg\n")
        log.wait("tick", before + 5)
        user.type(CTRL_C)
        (send_signal,) = log.wait("SIGINT")
        assert send_signal.pid == started.pid
    observer.wait_queue(path, 0)


PROVEN = ("--session-timeout", "20", "--kill-after", "5")
"""After a pause of five seconds, `zklock` sends SIGTERM unless a server confirms the lock in time."""


@pytest.mark.parametrize(
    ("seconds", "options"), [(5.2, PROVEN), (3, ()), (10, ()), (30, ())], ids=["proven", "3", "10", "30"]
)
def test_s691_ctrl_z_for_a_while(
    server: Standalone, observer: Observer, path: str, log: Log, seconds: float, options: tuple[str, ...]
) -> None:
    """After `fg`, `zklock` continues its command if a server confirms the lock within the lock's term.

    If the term (half a session timeout) has ended, `zklock` kills the command.
    """
    with shell(server.hosts) as user, Lag() as lag:
        user.type(line(path, log.job("tick"), *options))
        (started,) = log.wait("start")
        user.type(CTRL_Z)
        user.wait("Stopped")
        eventually(lambda: state(started.pid) == "T", "the command is stopped")
        before = len(log.events("tick"))
        time.sleep(seconds)  # the pause
        user.type(b"fg\n")
        if seconds < 10:
            wait_for_more(user, log, before, lag)
            user.type(CTRL_C)
        else:
            user.wait("AFTER the term: another process might have held the lock meanwhile; check the results")
            assert b"this process was stopped, or the machine was suspended, for " in user.shown
            assert len(log.events("tick")) == before, "the command ran after the end of the term"
            user.type(b"echo status $((100+$?))\n")
            user.wait("status 179")
    assert log.events("SIGTERM") == []
    observer.wait_queue(path, 0)


def wait_for_more(user: Shell, log: Log, before: int, lag: Lag) -> None:
    """Wait until the command continues, or until `zklock` reports a stall beyond the end of the term."""

    def goes_on_or_is_late() -> bool:
        return len(log.events("tick")) >= before + 5 or (lag.late > 0.2e9 and b"AFTER the term" in user.shown)

    eventually(goes_on_or_is_late, "the command is still running")


def test_s560_ctrl_c_reaches_the_command_alone(
    server: Standalone, observer: Observer, path: str, log: Log
) -> None:
    with shell(server.hosts) as user:
        user.type(line(path, log.job("tick")))
        log.wait("start")
        user.type(CTRL_C)
        user.wait("status 103")
        assert len(log.events("SIGINT")) == 1, "zklock passed the signal on a second time"
        observer.assert_free(path)
        # The shell controls its terminal again.
        user.type(b"echo again $((40+2))\n")
        user.wait("again 42")


def test_s564_the_command_reads_from_the_terminal(server: Standalone, observer: Observer, path: str) -> None:
    require("command")
    with shell(server.hosts) as user:
        # In a pipeline, the command gets the terminal when it reads from it.
        for redirect in ("", " | cat"):
            script = shlex.join([str(COMMAND), "run", path, "--", "sh", "-c", "read word; echo got-$word"])
            user.shown = b""
            user.type(script.encode() + redirect.encode() + b"\n")
            observer.wait_queue(path, 1)
            user.type(b"hello\n")
            user.wait("got-hello")
            observer.wait_queue(path, 0)
    observer.assert_free(path)


def test_s579_the_command_has_the_terminal_from_the_start(
    server: Standalone, observer: Observer, path: str, log: Log
) -> None:
    with shell(server.hosts) as user:
        user.type(line(path, log.job("terminal", "0.1")))
        user.wait("status 100")
        assert len(log.events("foreground")) == 1, "the command was not in the foreground from the start"
        # In a pipeline the command stays in the background, because the pipeline's other processes would be
        # stopped if they lost the terminal.
        user.type(
            shlex.join([str(COMMAND), "run", path, "--", *log.job("terminal", "0.1")]).encode() + b" | cat\n"
        )
        log.wait("end", 2)
        assert len(log.events("background")) == 1
        observer.wait_queue(path, 0)
        user.type(b"echo again $((40+2))\n")
        user.wait("again 42")
