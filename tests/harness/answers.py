"""Commands to a worker, and their answers to come."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for
from typing import Any

ANSWER = 20.0

Line = dict[str, Any]


class WorkerError(Exception):
    """The worker answered `error`."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"{line.get('code')} {line.get('type')}: {line.get('message')}")
        self.code: str | None = line.get("code")
        self.type: str = line.get("type", "")
        self.message: str = line.get("message", "")
        # What it has for programs: pairs of a server and its problem, and what the cause says of them;
        # who is in the way; why a lock was lost.
        self.servers: list[list[str]] = line.get("servers", [])
        self.cause: str = line.get("cause", "")
        self.blockers: list[Line] = line.get("blockers", [])
        self.deadlock: Line | None = line.get("deadlock")
        self.reason: str | None = line.get("reason")
        self.t: int = line["t"]


class Unanswered(AssertionError):
    """No answer in time: in this suite a hang is a failure, and a loud one."""


class Unsupported(AssertionError):
    """The worker has no such command."""


def now() -> int:
    """CLOCK_MONOTONIC in nanoseconds, as the workers stamp their lines."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Pending:
    """A command that was sent, and its answer to come."""

    def __init__(self, worker: Any, command: Line) -> None:
        # The `Worker` that was asked. A worker is built on this file, not the other way round.
        self.worker = worker
        self.command = command
        self.sent = now()
        self._future: Future[Line] = Future()

    @property
    def id(self) -> int:
        """The command's id."""
        return int(self.command["id"])

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def wait(self, timeout: float) -> bool:
        """Wait for the answer; whether it is there."""
        wait_for([self._future], timeout)
        return self._future.done()

    def resolve(self, line: Line) -> None:
        """Note the answer."""
        self._future.set_result(line)

    def abandon(self, reason: str) -> None:
        """Note that there will be no answer."""
        if not self._future.done():
            self._future.set_exception(Unanswered(f"{self.worker}: {reason}, {self.command} has no answer"))

    def line(self, timeout: float = ANSWER) -> Line:
        """The answer as it came, even if it is an error."""
        try:
            return self._future.result(timeout)
        except FutureTimeout:
            raise Unanswered(
                f"{self.worker}: no answer to {self.command} within {timeout} s\n{self.worker.last_words()}"
            ) from None

    def result(self, timeout: float = ANSWER) -> Line:
        """The answer; an error is raised."""
        line = self.line(timeout)
        if line["event"] == "error":
            raise WorkerError(line)
        if line["event"] == "unsupported":
            raise Unsupported(f"{self.worker} does not support {self.command['cmd']}")
        return line

    def expect(self, event: str, timeout: float = ANSWER) -> Line:
        """The answer, which must be this one."""
        line = self.result(timeout)
        assert line["event"] == event, f"{self.worker}: wanted {event}, got {line}"
        return line

    def error(self, timeout: float = ANSWER) -> WorkerError:
        """The error that the answer must be."""
        line = self.line(timeout)
        assert line["event"] == "error", f"{self.worker}: wanted an error for {self.command}, got {line}"
        return WorkerError(line)


def first_answered(pending: Iterable[Pending], timeout: float = ANSWER) -> list[Pending]:
    """Those whose answer is there, as soon as there is one."""
    asked = list(pending)
    wait_for([one._future for one in asked], timeout, FIRST_COMPLETED)
    if answered := [one for one in asked if one.done]:
        return answered
    raise Unanswered(f"no answer within {timeout} s to {[f'{one.worker}: {one.command}' for one in asked]}")
