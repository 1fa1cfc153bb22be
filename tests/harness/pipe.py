"""Runs a worker's process, writes commands to it, and keeps the lines that it prints."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from harness.answers import ANSWER, Line, Pending, Unanswered, now
from harness.paths import TESTS
from harness.processes import reap, spawn
from harness.surfaces import Surface


class Process:
    """A worker process. It takes commands as lines, and keeps the lines that it prints."""

    _numbers = itertools.count(1)

    def __init__(self, surface: Surface, env: dict[str, str] | None) -> None:
        surface.require()
        self.surface = surface
        self.name = f"{surface.name}#{next(self._numbers)}"
        self.history: list[Line] = []
        self.killed: int | None = None
        # Names of leases that the worker has reported lost since their latest acquire.
        self.lost: set[str] = set()
        # Start and end of each SIGSTOP pause.
        self.pauses: list[tuple[int, int | None]] = []
        self._commands: dict[int, Pending] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._errors: deque[str] = deque(maxlen=4000)
        self._news = threading.Condition()
        self._process = spawn(
            self.surface.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=TESTS,
            env=env,
        )
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            try:
                line: Line = json.loads(raw)
            except ValueError:
                self._errors.append(f"not JSON: {raw!r}")
                continue
            with self._news:
                self.history.append(line)
                if line["event"] == "lost":
                    self.lost.add(line["lease"])
                self._news.notify_all()
            pending = self._commands.get(line.get("id", -1))
            if pending is not None and line["event"] != "held" and not pending.done:
                pending.resolve(line)
        for pending in list(self._commands.values()):
            pending.abandon(f"the worker ended\n{self.last_errors()}\n")
        with self._news:
            self._news.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            self._errors.append(raw.decode(errors="replace").rstrip())

    def last_errors(self) -> str:
        """Return the last lines that the worker wrote to its standard error."""
        return "\n".join(list(self._errors)[-40:])

    def errors(self) -> list[str]:
        """Return the lines on the worker's standard error."""
        return list(self._errors)

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def send(self, cmd: str, **fields: Any) -> Pending:
        """Send a command without waiting for its reply."""
        command = {"id": next(self._ids), "cmd": cmd, **fields}
        pending = Pending(self, command)
        self._commands[pending.id] = pending
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.stdin.flush()
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: after `kill`, our end of the pipe is closed too
            raise Unanswered(f"{self}: {error}; {self.last_errors()}") from error
        return pending

    def call(self, cmd: str, *, answer_within: float = ANSWER, **fields: Any) -> Line:
        """Send a command and return its reply. Raise if the reply is an error."""
        return self.send(cmd, **fields).result(answer_within)

    def wait_line(self, event: str, timeout: float = ANSWER, **fields: Any) -> Line:
        """Wait until the history has a line with this event and these fields. Return the line."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.history:
                    if line["event"] == event and all(
                        line.get(key) == value for key, value in fields.items()
                    ):
                        return line
                if not self._news.wait(max(0.0, deadline - time.monotonic())):
                    raise Unanswered(f"{self}: no {event} {fields} within {timeout} s\n{self.last_errors()}")

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """Send SIGSTOP. The process cannot react before it stops, so its holds are no longer certain."""
        self.pauses.append((now(), None))
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)
        if self.pauses:
            began, _ = self.pauses.pop()
            self.pauses.append((began, now()))

    def kill(self) -> None:
        """Kill the process with SIGKILL. Its certain holds end now."""
        if self._process.poll() is None and self.killed is None:
            self.killed = now()
        reap(self._process, readers=self._readers)

    def exit(self, timeout: float = ANSWER) -> None:
        """Ask the worker to exit. Assert that it exits with status 0."""
        self.send("exit").expect("bye", timeout)
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Unanswered(f"{self} replied bye and did not exit within {timeout} s") from None
        reap(self._process, readers=self._readers)
        assert status == 0, f"{self} ended with status {status}\n{self.last_errors()}"

    def lines(self) -> list[Line]:
        """Return the history so far."""
        with self._news:
            return list(self.history)

    def note(self, line: Line) -> None:
        """Add a line to the history on behalf of the test."""
        with self._news:
            self.history.append(line)

    def command(self, number: int) -> Line:
        """Return the command with this id."""
        return self._commands[number].command

    def sent(self, number: int) -> int:
        """Return the stamp taken just before the command with this id was sent."""
        return self._commands[number].sent
