"""Commands that a test sends to a worker, and the replies it waits for."""

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
    """The worker replied with `error`."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"{line.get('code')} {line.get('type')}: {line.get('message')}")
        self.code: str | None = line.get("code")
        self.type: str = line.get("type", "")
        self.message: str = line.get("message", "")
        # Details of the error: each server with its problem, the cause as text, the contenders that block the
        # waiter, and the reason for the loss of a lock.
        self.servers: list[list[str]] = line.get("servers", [])
        self.cause: str = line.get("cause", "")
        self.blockers: list[Line] = line.get("blockers", [])
        self.deadlock: Line | None = line.get("deadlock")
        self.reason: str | None = line.get("reason")
        self.t: int = line["t"]


class Unanswered(AssertionError):
    """The worker did not reply in time."""


class Unsupported(AssertionError):
    """The worker does not implement the command."""


def now() -> int:
    """Return the time of CLOCK_MONOTONIC in nanoseconds. Workers use the same clock."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Pending:
    """A command that was sent to a worker, and its future reply."""

    def __init__(self, worker: Any, command: Line) -> None:
        # The `Worker` that received the command. It is untyped here because harness.worker imports this
        # module.
        self.worker = worker
        self.command = command
        self.sent = now()
        self._future: Future[Line] = Future()

    @property
    def id(self) -> int:
        """Id of the command."""
        return int(self.command["id"])

    @property
    def done(self) -> bool:
        """Return whether the worker has replied."""
        return self._future.done()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the reply. Return whether it has arrived."""
        wait_for([self._future], timeout)
        return self._future.done()

    def resolve(self, line: Line) -> None:
        """Record the reply."""
        self._future.set_result(line)

    def abandon(self, reason: str) -> None:
        """Record that the worker will never reply."""
        if not self._future.done():
            self._future.set_exception(Unanswered(f"{self.worker}: {reason}, no reply to {self.command}"))

    def line(self, timeout: float = ANSWER) -> Line:
        """Return the reply as it arrived, even if it is an error."""
        try:
            return self._future.result(timeout)
        except FutureTimeout:
            raise Unanswered(
                f"{self.worker}: no reply to {self.command} within {timeout} s\n{self.worker.last_errors()}"
            ) from None

    def result(self, timeout: float = ANSWER) -> Line:
        """Return the reply. Raise if it is an error."""
        line = self.line(timeout)
        if line["event"] == "error":
            raise WorkerError(line)
        if line["event"] == "unsupported":
            raise Unsupported(f"{self.worker} does not support {self.command['cmd']}")
        return line

    def expect(self, event: str, timeout: float = ANSWER) -> Line:
        """Return the reply, and assert that it is this event."""
        line = self.result(timeout)
        assert line["event"] == event, f"{self.worker}: wanted {event}, got {line}"
        return line

    def error(self, timeout: float = ANSWER) -> WorkerError:
        """Assert that the reply is an error, and return it."""
        line = self.line(timeout)
        assert line["event"] == "error", f"{self.worker}: wanted an error for {self.command}, got {line}"
        return WorkerError(line)


def first_answered(pending: Iterable[Pending], timeout: float = ANSWER) -> list[Pending]:
    """Wait until one of the commands has a reply. Return all commands that have a reply by then."""
    asked = list(pending)
    wait_for([one._future for one in asked], timeout, FIRST_COMPLETED)
    if answered := [one for one in asked if one.done]:
        return answered
    raise Unanswered(f"no reply within {timeout} s to {[f'{one.worker}: {one.command}' for one in asked]}")
