"""The `zklock` command as a process, and what the job that it runs has written."""

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
"""Seconds within which a command ends that has something to end for."""

POLL = 0.01


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str


class Command:
    """A running `zklock`."""

    def __init__(
        self, hosts: str, *words: str, env: Mapping[str, str] | None = None, err: int | None = None
    ) -> None:
        """With `err`, its standard error is that descriptor, and is not in its outcome."""
        require("command")
        # Closed with the command.
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
        """Send it a signal, and no one else."""
        os.kill(self.process.pid, number)

    def type(self, text: str) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def read_until(self, text: str, limit: float = LIMIT) -> str:
        """Wait until it has printed something; returns all that it has printed."""
        deadline = time.monotonic() + limit
        # A character may have been written in part.
        while text not in (shown := os.pread(self.out.fileno(), 1 << 20, 0).decode(errors="replace")):
            assert time.monotonic() < deadline, f"no {text!r} in {limit} s, but {shown!r}"
            time.sleep(POLL)
        return shown

    def errors(self) -> str:
        """Its standard error so far."""
        return os.pread(self.err.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait(self, limit: float = LIMIT) -> Outcome:
        """Wait until it has ended."""
        status = self.process.wait(limit)
        self.out.seek(0)
        self.err.seek(0)
        return Outcome(status, self.out.read().decode(), self.err.read().decode())


def run(hosts: str, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run a command to its end."""
    with Command(hosts, *words, env=env) as command:
        return command.wait()


def write_credentials(file: Path, text: str) -> str:
    """Write a file that only its owner can read, as `--auth-file` has to be; returns its path."""
    file.touch(0o600)
    file.write_text(text)
    return str(file)


@dataclass(frozen=True)
class Event:
    """Something that a job has written down."""

    event: str
    pid: int
    time: int
    """CLOCK_MONOTONIC in nanoseconds."""


class Log:
    """What jobs have written down, in the order in which they did."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "log"

    def job(self, *words: str) -> list[str]:
        """The command line of a job that writes here."""
        return [PYTHON, str(TESTS / "cli" / "job.py"), str(self.path), *words]

    def events(self, *names: str) -> list[Event]:
        """All with these names; every one if none is named."""
        text = self.path.read_text() if self.path.exists() else ""
        # The last line may have been written in part.
        *lines, _ = text.split("\n")
        found = [Event(**json.loads(line)) for line in lines]
        return [event for event in found if not names or event.event in names]

    def wait(self, name: str, number: int = 1, limit: float = LIMIT) -> list[Event]:
        """Wait until there are so many with this name."""
        deadline = time.monotonic() + limit
        while len(found := self.events(name)) < number:
            assert time.monotonic() < deadline, f"no {number} {name} in {limit} s, but {self.events()}"
            time.sleep(POLL)
        return found


def state(pid: int) -> str:
    """R, S, T (stopped), …; nothing for a process that has ended, and Z for one that was not reaped."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended and was not reaped does not."""
    return state(pid) not in ("", "Z")
