"""Runs the `zklock` command as a process, and reads the log that its job writes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from harness.built import require
from harness.paths import COMMAND, PYTHON, TESTS
from harness.processes import reap, spawn

LIMIT = 30.0
"""Maximum time in seconds to wait for the command to exit."""

POLL = 0.01


@dataclass(frozen=True)
class Outcome:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


class Command:
    """A running `zklock` process."""

    def __init__(
        self, hosts: str, *words: str, env: Mapping[str, str] | None = None, err: int | None = None
    ) -> None:
        """Start `zklock`. If `err` is given, standard error is written there and is not in the outcome."""
        require("command")
        # `close` closes both files together with the command.
        self.out, self.err = TemporaryFile(), TemporaryFile()  # noqa: SIM115
        environment = {"ZKLOCK_HOSTS": hosts, **(env or {})}
        self.process = spawn(
            [str(COMMAND), *words],
            stdin=PIPE,
            stdout=self.out,
            stderr=self.err if err is None else err,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        reap(self.process)
        self.out.close()
        self.err.close()

    def signal(self, number: signal.Signals) -> None:
        """Send the signal to this process only, not to its group."""
        os.kill(self.process.pid, number)

    def type(self, text: str) -> None:
        """Write text to the command's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def read_until(self, text: str, limit: float = LIMIT) -> str:
        """Wait until the command has printed `text`. Return all output so far."""
        deadline = time.monotonic() + limit
        # The last character can be incomplete.
        while text not in (shown := os.pread(self.out.fileno(), 1 << 20, 0).decode(errors="replace")):
            assert time.monotonic() < deadline, (
                f"{text!r} is missing from the output after {limit} s: {shown!r}"
            )
            time.sleep(POLL)
        return shown

    def errors(self) -> str:
        """Return the standard error so far."""
        return os.pread(self.err.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait(self, limit: float = LIMIT) -> Outcome:
        """Wait until the command exits."""
        status = self.process.wait(limit)
        self.out.seek(0)
        self.err.seek(0)
        return Outcome(status, self.out.read().decode(), self.err.read().decode())


def run(hosts: str, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run a command until it exits."""
    with Command(hosts, *words, env=env) as command:
        return command.wait()


def write_credentials(file: Path, text: str) -> str:
    """Write a file that only its owner can read, as `--auth-file` requires. Return its path."""
    file.touch(0o600)
    file.write_text(text)
    return str(file)


@dataclass(frozen=True)
class Event:
    """One entry in the log of a job."""

    event: str
    pid: int
    time: int
    """CLOCK_MONOTONIC in nanoseconds."""


class Log:
    """The log of all jobs, in the order in which they wrote it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "log"

    def job(self, *words: str) -> list[str]:
        """Return the command line of a job that writes to this log."""
        return [PYTHON, str(TESTS / "cli" / "job.py"), str(self.path), *words]

    def events(self, *names: str) -> list[Event]:
        """Return the events with these names, or all events if no name is given."""
        text = self.path.read_text() if self.path.exists() else ""
        # The last line can be incomplete.
        *lines, _ = text.split("\n")
        found = [Event(**json.loads(line)) for line in lines]
        return [event for event in found if not names or event.event in names]

    def wait(self, name: str, number: int = 1, limit: float = LIMIT) -> list[Event]:
        """Wait until the log has at least `number` events with this name."""
        deadline = time.monotonic() + limit
        while len(found := self.events(name)) < number:
            assert time.monotonic() < deadline, (
                f"fewer than {number} {name} events in {limit} s: {self.events()}"
            )
            time.sleep(POLL)
        return found


def state(pid: int) -> str:
    """Return the process state: R, S, T (stopped), …; Z for a zombie, and "" if there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    return state(pid) not in ("", "Z")
