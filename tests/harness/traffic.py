"""Counts of the traffic through a proxy, and traps that act on single requests or replies."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Flight:
    """Requests of one connection that were in flight together. Stamps are CLOCK_MONOTONIC seconds."""

    connection: int
    opened: float
    requests: list[str] = field(default_factory=list)
    # Time of the last reply's delivery to the client; None while a reply is missing.
    closed: float | None = None


@dataclass(frozen=True)
class Delivery:
    """A watch event that was delivered to a client."""

    connection: int
    at: float


@dataclass
class Counts:
    """Traffic since the last reset."""

    requests: Counter[str] = field(default_factory=Counter)
    flights: list[Flight] = field(default_factory=list)
    events: list[Delivery] = field(default_factory=list)
    # Times at which clients connected, in CLOCK_MONOTONIC seconds.
    arrivals: list[float] = field(default_factory=list)
    # Bytes from clients, and bytes from the server.
    sent: int = 0
    received: int = 0

    @property
    def total(self) -> int:
        """Number of all requests."""
        return sum(self.requests.values())


class Trap:
    """An action on one future request or reply, and whether it has happened."""

    def __init__(self, op: str, skip: int = 0, content: bytes = b"") -> None:
        self.op = op
        # The request must contain these bytes.
        self.content = content
        # Number of matching messages that pass first.
        self.skip = skip
        self._done = threading.Event()

    def mark(self) -> None:
        """Record that the trap has been triggered."""
        self._done.set()

    @property
    def triggered(self) -> bool:
        """Return whether the trap has been triggered."""
        return self._done.is_set()

    def wait(self, timeout: float = 10.0) -> None:
        """Wait until the trap is triggered."""
        if not self._done.wait(timeout):
            raise AssertionError(f"no reply to {self.op} within {timeout} s")


class Traps:
    """All traps of one kind that have not been triggered."""

    def __init__(self) -> None:
        self._set: list[Trap] = []

    def set(self, op: str, skip: int = 0, content: bytes = b"") -> Trap:
        """Set a trap."""
        trap = Trap(op, skip, content)
        self._set.append(trap)
        return trap

    def clear(self) -> None:
        """Remove all traps that have not been triggered."""
        self._set.clear()

    def trigger(self, op: str, request: bytes = b"") -> bool:
        """Return whether this request, or the reply to it, triggers a trap.

        Call this once for each message.
        """
        for trap in self._set:
            meant = trap.op == op and trap.content in request
            if meant and trap.skip == 0:
                self._set.remove(trap)
                trap.mark()
                return True
            trap.skip -= int(meant)
        return False
