"""Records that a campaign writes and the judge reads. Stamps are CLOCK_MONOTONIC in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """The hold on whose behalf an action was taken."""

    worker: str
    session: int
    node: str
    # Time at which the worker knew of its grant.
    granted: int
    token: int = 0


@dataclass(frozen=True)
class Intervention:
    """An operator's intervention that deleted one node, or all nodes, of a session."""

    session: int
    # None for all nodes of the session.
    node: str | None
    # Time just before the intervention.
    began: int
    # Time at which the session's client knew of the intervention.
    known: int

    def took(self, held: Held) -> bool:
        """Return whether the intervention ended this hold.

        This is false for a lock that was granted after the client knew of the intervention.
        """
        mine = held.session == self.session and self.node in {None, held.node}
        return mine and held.granted < self.known

    def took_node(self, session: int | None, node: str | None) -> bool:
        """Return whether the intervention deleted exactly this node."""
        return self.node is not None and (session, node) == (self.session, self.node)


@dataclass(frozen=True)
class FirstCheck:
    """The first check of a new grant."""

    path: str
    held: Held
    # Remaining time in seconds for which the lease was certain, as the worker reported it after the grant.
    remaining: float
    # Time of the check, and whether the lease was held then.
    checked: int
    passed: bool


@dataclass(frozen=True)
class Loss:
    """A loss that a worker reported."""

    path: str
    held: Held
    remaining: float
    t: int
    reason: str


@dataclass(frozen=True)
class Write:
    """A write, and its effect."""

    name: str
    writer: str
    token: int
    t: int
    # True if another owner wrote between this owner's read and its write, so that this write undid an update.
    undid_plain: bool
    undid_fenced: bool
    # True if the fenced register refused the write, because an owner with a newer token had already used it.
    refused: bool
    held: Held


@dataclass(frozen=True)
class Reading:
    """A reader's hold, and whether a register changed during it."""

    name: str
    held: Held
    began: int
    t: int
    changed_plain: bool
    changed_fenced: bool


@dataclass(frozen=True)
class Entry:
    """A permit holder that enters a room, and the holders that are already in it.

    A holder that has lost its permit leaves the room when it notices the loss.
    """

    name: str
    room_for: int
    held: Held
    t: int
    others: tuple[Held, ...]
