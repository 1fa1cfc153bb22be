"""`zklock run` on a terminal, in a shell with job control."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from cli.shell import CTRL_C, CTRL_Z, shell
from harness.built import require
from harness.command import Log, state
from harness.observer import Observer
from harness.paths import COMMAND
from harness.server import Standalone
from harness.steps import eventually

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def line(path: str, words: list[str]) -> bytes:
    """What to type."""
    return shlex.join([str(COMMAND), "run", path, "--", *words]).encode() + b"; echo status $((100+$?))\n"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Where the jobs of this test write."""
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
        (hit,) = log.wait("SIGINT")
        assert hit.pid == started.pid
    observer.wait_queue(path, 0)


def test_s560_ctrl_c_reaches_the_command_alone(
    server: Standalone, observer: Observer, path: str, log: Log
) -> None:
    with shell(server.hosts) as user:
        user.type(line(path, log.job("tick")))
        log.wait("start")
        user.type(CTRL_C)
        user.wait("status 103")
        assert len(log.events("SIGINT")) == 1, "once, and not passed on once more"
        observer.assert_free(path)
        # The shell has its terminal back.
        user.type(b"echo again $((40+2))\n")
        user.wait("again 42")


def test_s564_the_command_reads_from_the_terminal(server: Standalone, observer: Observer, path: str) -> None:
    require("command")
    with shell(server.hosts) as user:
        # In a pipeline it gets the terminal when it asks for it.
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
        assert len(log.events("foreground")) == 1, "before its first instruction"
        # The others of a pipeline have it there, and would be stopped.
        user.type(
            shlex.join([str(COMMAND), "run", path, "--", *log.job("terminal", "0.1")]).encode() + b" | cat\n"
        )
        log.wait("end", 2)
        assert len(log.events("background")) == 1
        observer.wait_queue(path, 0)
        user.type(b"echo again $((40+2))\n")
        user.wait("again 42")
