"""`zklock run` on a terminal, in a shell with job control."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from harness.built import require
from harness.command import Log
from harness.observer import Observer
from harness.paths import COMMAND
from harness.processes import MARK, MARK_NAME
from harness.server import Standalone
from harness.steps import eventually

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while some := os.read(self._descriptor, 4096):
                self.shown += some

    def type(self, keys: bytes) -> None:
        """What a user types."""
        os.write(self._descriptor, keys)

    def wait(self, text: str, limit: float = 20) -> None:
        """Wait until the terminal shows it."""
        deadline = time.monotonic() + limit
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown.decode(errors='replace')}"
            time.sleep(0.02)


@contextmanager
def shell(hosts: str) -> Iterator[Shell]:
    """A shell that ends with its block."""
    pid, descriptor = pty.fork()
    if pid == 0:
        environment = {**os.environ, "ZKLOCK_HOSTS": hosts, "PS1": "ready> ", MARK_NAME: MARK}
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
    try:
        made = Shell(descriptor)
        made.wait("ready> ")
        yield made
    finally:
        # Hangs up on all that the terminal controls.
        os.close(descriptor)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def state(pid: int) -> str:
    """R, S, T (stopped), …; nothing for a process that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


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
        assert observer.queue(path) == []
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
    assert observer.queue(path) == []
