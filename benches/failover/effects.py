"""The effects of a server's end on the locks of one peer."""

from __future__ import annotations

import contextlib
from typing import Any

from failover.samples import STEADY, longest_gap, settled
from harness.answers import Line, Pending, Unanswered, WorkerError, now
from harness.worker import Worker

PAUSE = 0.1
"""Seconds after which a program whose request has failed tries again."""

HOLD_MS = 5
"""Time in milliseconds for which a lock that is handed on is held each time."""


class Lines:
    """The lines that a worker writes from now on. A copy of its whole history would take too long."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._read = len(worker.history)

    def new(self) -> list[Line]:
        """Return the lines since the last call."""
        found = self._worker.history[self._read :]
        self._read += len(found)
        return found


class Asked:
    """A request that is repeated after an error, as a program does."""

    def __init__(self, worker: Worker, command: str, **fields: Any) -> None:
        self._worker, self._command, self._fields = worker, command, fields
        self.ids: set[int] = set()
        self._send()

    def _send(self) -> None:
        self._pending: Pending = self._worker.send(self._command, **self._fields)
        self.ids.add(self._pending.id)

    def poll(self) -> Line | None:
        """Return the reply, or None. Repeat a request that has failed."""
        if not self._pending.done:
            return None
        line = self._pending.line(0)
        if line["event"] != "error":
            return line
        if now() - line["t"] > PAUSE * 1e9:
            self._send()
        return None


class Kept:
    """A lock that one process holds during the fail-over."""

    def __init__(self, worker: Worker, name: str, path: str, client: str, *, reports: bool) -> None:
        self._worker, self._name, self._client = worker, name, client
        # True if the worker knows the state of a lease. Only zklock's workers do.
        self._reports = reports
        worker.lock(path, lock=name, client=client)
        worker.hold(name, lock=name)
        self._lines = Lines(worker)
        # The states of the client since the kill. A client that is connected again does not know yet whether
        # its leases are held, so the lease itself is asked for its state, but only then.
        self._states: list[str] = []
        self._asked: Pending | None = None
        self.is_lost = False
        self.again: float | None = None

    def poll(self, killed: int) -> bool:
        """Return whether the lease is known to be held again or lost."""
        if not self._reports:
            return True
        for line in self._lines.new():
            if line["event"] == "state" and line["client"] == self._client and line["t"] >= killed:
                self._states.append(line["state"])
        if self._name in self._worker.lost:
            self.is_lost = True
        if self.is_lost or self.again is not None:
            return True
        is_back = self._states[-1] == "connected" if self._states else now() - killed > STEADY * 1e9
        if not is_back:
            self._asked = None
        elif self._asked is None:
            self._asked = self._worker.send("state", lease=self._name)
        elif self._asked.done:
            self._hear(self._asked, killed)
            self._asked = None
        return False

    def _hear(self, asked: Pending, killed: int) -> None:
        with contextlib.suppress(WorkerError, Unanswered):
            line = asked.result(0)
            if line["value"] == "held":
                # A client that noticed nothing has held the lease all the time.
                self.again = (line["t"] - killed) / 1e9 if self._states else 0.0
            elif line["value"] == "lost":
                self.is_lost = True


class NextGrant:
    """A lock that one process holds and the other waits for. It is released when the server is killed."""

    def __init__(self, holder: Worker, waiter: Worker, name: str, path: str, client: str) -> None:
        self._holder, self._name = holder, name
        for worker in (holder, waiter):
            worker.lock(path, lock=name, client=client)
        holder.hold(name, lock=name, owner="b")
        self._waits = Asked(waiter, "acquire", lock=name, lease=name, owner="b")
        self._granted: int | None = None

    def begin(self) -> None:
        """Release the lock, as a program does regardless of the servers."""
        self._releases = Asked(self._holder, "release", lease=self._name, owner="b", wait=True)

    def poll(self, killed: int) -> bool:
        """Return whether the waiter has the lock."""
        self._releases.poll()
        if self._granted is None and (line := self._waits.poll()) is not None:
            self._granted = line["t"]
        return self._granted is not None

    def grant(self, killed: int) -> float | None:
        """Return when the waiter was granted the lock, in seconds after the kill."""
        return None if self._granted is None else (self._granted - killed) / 1e9


class Handing:
    """A lock that both processes acquire and release all the time."""

    def __init__(self, workers: tuple[Worker, Worker], path: str, client: str) -> None:
        self._lines = [Lines(worker) for worker in workers]
        fields = {"path": path, "client": client, "kind": "mutex", "owners": 1, "objects": "each"}
        self._asked = [
            Asked(worker, "contend", rounds=10**9, hold_ms=[HOLD_MS, HOLD_MS], **fields) for worker in workers
        ]
        self._grants: list[list[int]] = [[] for _ in workers]
        self._until = 0

    def begin(self) -> None:
        """Do nothing: the processes hand on the lock anyway."""

    def poll(self, killed: int) -> bool:
        """Return whether both processes have been granted the lock regularly for a while."""
        for asked, lines, grants in zip(self._asked, self._lines, self._grants, strict=True):
            grants += [
                line["t"] for line in lines.new() if line["event"] == "held" and line["id"] in asked.ids
            ]
            asked.poll()
        self._until = now()
        return settled(self._grants, killed, self._until)

    def grant(self, killed: int) -> float | None:
        """Return when the longest gap between grants ended, in seconds after the kill."""
        merged = [one for several in self._grants for one in several]
        return longest_gap(merged, killed, self._until)
