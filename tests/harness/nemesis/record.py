"""What a campaign writes down, and the judge reads. Stamps are CLOCK_MONOTONIC in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """Which hold somebody speaks for."""

    worker: str
    session: int
    node: str
    # When the worker had it.
    granted: int
    token: int = 0


@dataclass(frozen=True)
class Deed:
    """Somebody took from a session all that it held, or one node."""

    session: int
    # All, if there is none.
    node: str | None
    # Just before it was done.
    began: int
    # When the session's client knew.
    known: int

    def took(self, held: Held) -> bool:
        """Whether it took this hold, which its client cannot have known when it was granted."""
        mine = held.session == self.session and self.node in {None, held.node}
        return mine and held.granted < self.known

    def took_node(self, session: int | None, node: str | None) -> bool:
        """Whether it took just this node."""
        return self.node is not None and (session, node) == (self.session, self.node)


@dataclass(frozen=True)
class FirstLook:
    """The first look at a grant."""

    path: str
    held: Held
    # The rest of the term, in seconds, as the worker saw it right after the grant.
    remaining: float
    # When the lease was checked, and whether it was held then.
    looked: int
    passed: bool


@dataclass(frozen=True)
class Loss:
    """A reported loss."""

    path: str
    held: Held
    remaining: float
    t: int
    reason: str


@dataclass(frozen=True)
class Write:
    """A write, and what it did."""

    name: str
    writer: str
    token: int
    t: int
    # Another owner had written since the writer read: one of the two updates is lost.
    spoilt_plain: bool
    spoilt_fenced: bool
    # The fenced register refused it: another owner with a newer token had read or written.
    refused: bool
    held: Held


@dataclass(frozen=True)
class Reading:
    """What happened to a register while a reader held its lock, according to two looks at it."""

    name: str
    held: Held
    began: int
    t: int
    changed_plain: bool
    changed_fenced: bool


@dataclass(frozen=True)
class Entry:
    """The holder of a permit enters a room. Those who are in it leave when they have lost theirs."""

    name: str
    room_for: int
    held: Held
    t: int
    others: tuple[Held, ...]
