"""What is wrong with the records of a campaign. Whatever is not excused here is a violation.

There are two excuses: the process was stopped or killed, and what it held was taken from it by somebody who
ended its session or deleted its node. The second ends when the client knows: nothing voids what a session is
granted later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.history import NEVER, Hold
from harness.nemesis.record import Deed, Entry, FirstLook, Held, Loss, Reading, Write

Span = tuple[int, int | None]

RESUMING = 500_000_000
"""So long after it goes on a process may still be late: what it stamps then may have been done before."""


@dataclass(frozen=True)
class Excuses:
    """What happened to workers and sessions."""

    # When a worker was stopped, and when it went on.
    stops: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    killed: Mapping[str, int] = field(default_factory=dict)
    deeds: Sequence[Deed] = ()

    def stopped(self, worker: str, since: int, until: int) -> bool:
        """Whether a worker's process did not run all the time between two moments."""
        spans = self.stops.get(worker, ())
        stopped = any(
            began < until and since < (NEVER if ended is None else ended + RESUMING) for began, ended in spans
        )
        return stopped or self.killed.get(worker, NEVER) < until

    def excuse(self, held: Held, until: int) -> bool:
        """Whether a hold may have ended before this moment without its owner's doing or knowing."""
        return self.stopped(held.worker, held.granted, until) or any(deed.took(held) for deed in self.deeds)


def certain(
    holds: Iterable[Hold], excuses: Excuses, peers: Collection[str], troubles: Sequence[tuple[int, int]]
) -> list[Hold]:
    """The holds that can be judged against each other, each as far as it was certain.

    A peer does not learn in time what it has lost when servers fail: what it held before counts until then,
    and what it is granted until all is well again does not count.
    """
    found = []
    for hold in holds:
        if hold.worker in peers:
            if any(began <= hold.granted < ended for began, ended in troubles):
                continue
            strikes = [began for began, _ in troubles if hold.granted < began < hold.until]
            hold = replace(hold, ended=min(strikes)) if strikes else hold
        elif any(
            deed.node is None and deed.session == hold.session and deed.began <= hold.granted < deed.known
            for deed in excuses.deeds
        ):
            # Of a session that was over, by a client that could not know.
            continue
        # All levels of a hold go with its node, whichever of them was being watched.
        deletions = [deed.began for deed in excuses.deeds if deed.took_node(hold.session, hold.node)]
        hold = replace(hold, ended=min([hold.until, *deletions])) if deletions else hold
        if hold.until > hold.granted:
            found.append(hold)
    return found


def lost_at_first_look(looks: Iterable[FirstLook], excuses: Excuses) -> list[str]:
    """Grants that were over before their term was, when their owner first looked."""
    return [
        f"lost at the first look: {look}"
        for look in looks
        if not look.passed
        and look.looked - look.held.granted < max(look.remaining * 1e9, 1)
        and not excuses.excuse(look.held, look.looked)
    ] + [
        f"granted without a term: {look}"
        for look in looks
        if look.remaining <= 0 and not excuses.excuse(look.held, look.looked)
    ]


def lost_early(losses: Iterable[Loss], excuses: Excuses) -> list[str]:
    """Leases that were lost while the term of their grant still ran, though nobody took them away."""
    return [
        f"lost before its term was over: {loss}"
        for loss in losses
        if loss.t < loss.held.granted + loss.remaining * 1e9 and not excuses.excuse(loss.held, loss.t)
    ]


def granted_after(looks: Iterable[FirstLook], deeds: Sequence[Deed]) -> list[str]:
    """Grants in sessions that their clients knew to be over."""
    ends = {deed.session: deed.known for deed in deeds if deed.node is None}
    return [
        f"granted in a session that was over: {look}"
        for look in looks
        if look.held.session in ends and look.held.granted >= ends[look.held.session]
    ]


def late_writes(writes: Sequence[Write], excuses: Excuses) -> list[str]:
    """Fenced writes that undid others, tokens that came back, and late writes without an excuse."""
    found = []
    newest: dict[str, int] = {}
    for write in writes:
        if write.spoilt_fenced:
            found.append(f"a fenced write undid another: {write}")
        late = write.refused or (write.spoilt_plain and not _spoilt_by_another(write, writes))
        if late and not excuses.excuse(write.held, write.t):
            found.append(f"late, and nothing excuses it: {write}")
        if not write.refused:
            if write.token <= newest.get(write.name, 0):
                found.append(f"a token came back: {write}")
            newest[write.name] = max(write.token, newest.get(write.name, 0))
    return found


def _spoilt_by_another(write: Write, writes: Sequence[Write]) -> bool:
    """Whether a late write of another, which is judged by itself, came between a read and this write."""
    return any(
        late.refused and late.name == write.name and write.held.granted < late.t < write.t for late in writes
    )


def changed_while_reading(
    readings: Iterable[Reading], writes: Sequence[Write], excuses: Excuses
) -> list[str]:
    """Registers that changed under a reader.

    The plain one is also changed by late writes, which are judged by themselves.
    """
    found = []
    refused = [write for write in writes if write.refused]
    for reading in readings:
        late = any(write.name == reading.name and reading.began < write.t < reading.t for write in refused)
        changed = reading.changed_fenced or (reading.changed_plain and not late)
        if changed and not excuses.excuse(reading.held, reading.t):
            found.append(f"it changed under a reader: {reading}")
    return found


def too_many_inside(entries: Iterable[Entry], excuses: Excuses) -> list[str]:
    """Rooms in which there were more holders of permits than there are permits."""
    found = []
    for entry in entries:
        inside = [held for held in (entry.held, *entry.others) if not excuses.excuse(held, entry.t)]
        if len(inside) > entry.room_for:
            found.append(f"{len(inside)} inside instead of {entry.room_for}: {entry}")
    return found
