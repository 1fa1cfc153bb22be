"""What goes through a proxy and is counted, and what is to happen to single replies."""

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
    # When the last reply was passed to the client; None while any is missing.
    closed: float | None = None


@dataclass(frozen=True)
class Delivery:
    """A watch event that was passed to a client."""

    connection: int
    at: float


@dataclass
class Counts:
    """What went through since the last reset."""

    requests: Counter[str] = field(default_factory=Counter)
    flights: list[Flight] = field(default_factory=list)
    events: list[Delivery] = field(default_factory=list)
    # When clients connected. CLOCK_MONOTONIC seconds.
    arrivals: list[float] = field(default_factory=list)
    # Bytes from clients, and from the server.
    sent: int = 0
    received: int = 0

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.requests.values())


class Trap:
    """One request or reply to which something is to happen, and whether it has happened."""

    def __init__(self, op: str, skip: int = 0, content: bytes = b"") -> None:
        self.op = op
        # The request has this in it.
        self.content = content
        # This many replies pass first.
        self.skip = skip
        self._done = threading.Event()

    def mark(self) -> None:
        """Note that it has happened."""
        self._done.set()

    @property
    def sprung(self) -> bool:
        """Whether it has happened."""
        return self._done.is_set()

    def wait(self, timeout: float = 10.0) -> None:
        """Return once it has happened."""
        if not self._done.wait(timeout):
            raise AssertionError(f"no reply to {self.op} came within {timeout} s")


class Traps:
    """The traps of one kind that are set."""

    def __init__(self) -> None:
        self._set: list[Trap] = []

    def set(self, op: str, skip: int = 0, content: bytes = b"") -> Trap:
        """Set one."""
        trap = Trap(op, skip, content)
        self._set.append(trap)
        return trap

    def clear(self) -> None:
        """Remove all that have not sprung."""
        self._set.clear()

    def spring(self, op: str, request: bytes = b"") -> bool:
        """Whether such a request, or the reply to it, springs one. Asked once for each."""
        for trap in self._set:
            meant = trap.op == op and trap.content in request
            if meant and trap.skip == 0:
                self._set.remove(trap)
                trap.mark()
                return True
            trap.skip -= int(meant)
        return False
