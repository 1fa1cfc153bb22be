"""A program or an interactive shell on its own terminal, and the screen that a user sees."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pyte

from harness.processes import MARK, MARK_NAME

COLUMNS, LINES = 120, 30

CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Shell:
    """An interactive shell, or another program, on its own terminal."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self._descriptor = descriptor
        self.pid = pid
        self._status: int | None = None
        self.resize(COLUMNS, LINES)
        self.shown = b""
        self._closing = Event()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while not self._closing.is_set():
                if select.select([self._descriptor], [], [], 0.05)[0]:
                    if not (some := os.read(self._descriptor, 4096)):
                        return
                    self.shown += some

    def close(self) -> None:
        """Close the terminal, which sends SIGHUP to the processes that it controls."""
        # The reader must stop first: after `close`, the descriptor's number can belong to another file.
        self._closing.set()
        self._reader.join()
        os.close(self._descriptor)

    def resize(self, columns: int, lines: int) -> None:
        """Resize the terminal, as a user resizes the window."""
        self._size = (columns, lines)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def screen(self) -> list[str]:
        """Return the lines that a terminal shows now, as the emulator `pyte` renders them."""
        screen = pyte.Screen(*self._size)
        pyte.ByteStream(screen).feed(self.shown)
        return [line.rstrip() for line in screen.display]

    def see(self, what: Callable[[list[str]], bool], says: str, limit: float = 20) -> list[str]:
        """Wait until the screen satisfies `what`, and return the screen."""
        deadline = time.monotonic() + limit
        while not what(lines := self.screen()):
            assert time.monotonic() < deadline, says + ", but:\n" + "\n".join(lines)
            time.sleep(0.05)
        return lines

    def foreground(self) -> int:
        """Return the process group that has the terminal."""
        return os.tcgetpgrp(self._descriptor)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the leader of the foreground process group, which must be a command."""
        assert self.foreground() != self.pid, "no command is in the foreground"
        os.kill(self.foreground(), number)

    def type(self, keys: bytes) -> None:
        """Send keys to the terminal, as a user types them."""
        os.write(self._descriptor, keys)

    def wait(self, text: str, limit: float = 20) -> None:
        """Wait until the terminal shows the text."""
        deadline = time.monotonic() + limit
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown.decode(errors='replace')}"
            time.sleep(0.02)

    def ended(self, limit: float) -> int | None:
        """Return the exit status of the program when it has ended, or None after the time limit."""
        deadline = time.monotonic() + limit
        while self._status is None and time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return self._status

    def kill(self) -> None:
        """Kill the program if it still runs."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@contextmanager
def terminal(*command: str, env: Mapping[str, str]) -> Iterator[Shell]:
    """Run a program on its own terminal, and kill it at the end of the block."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**os.environ, **env, MARK_NAME: MARK})
    made = Shell(pid, descriptor)
    try:
        yield made
    finally:
        made.close()
        made.kill()


@contextmanager
def shell(hosts: str) -> Iterator[Shell]:
    """Provide a shell that is closed at the end of the block."""
    env = {"ZKLOCK_HOSTS": hosts, "PS1": "ready> "}
    with terminal("bash", "--norc", "--noprofile", "-i", env=env) as made:
        made.wait("ready> ")
        yield made
