"""Checks the records of a campaign, and reports every violation without an excuse.

There are two excuses:

- The worker's process was stopped or killed.
- Another client closed the worker's session or deleted its node. This does not excuse later grants, after the
  worker's client has learned of the intervention.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.history import NEVER, Hold
from harness.nemesis.record import Entry, FirstCheck, Held, Intervention, Loss, Reading, Write

Span = tuple[int, int | None]

RESUMING = 500_000_000
"""Time in nanoseconds that a resumed process can take to stamp an action from before the pause."""


@dataclass(frozen=True)
class Excuses:
    """Faults that workers and sessions suffered."""

    # Spans during which a worker was stopped, by worker.
    stops: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    killed: Mapping[str, int] = field(default_factory=dict)
    interventions: Sequence[Intervention] = ()

    def stopped(self, worker: str, since: int, until: int) -> bool:
        """Return whether a worker's process was stopped or dead at any time between two stamps."""
        spans = self.stops.get(worker, ())
        stopped = any(
            began < until and since < (NEVER if ended is None else ended + RESUMING) for began, ended in spans
        )
        return stopped or self.killed.get(worker, NEVER) < until

    def excuse(self, held: Held, until: int) -> bool:
        """Return whether a fault can have ended a hold before this time without the owner's knowledge."""
        return self.stopped(held.worker, held.granted, until) or any(
            intervention.took(held) for intervention in self.interventions
        )


def certain(
    holds: Iterable[Hold], excuses: Excuses, peers: Collection[str], troubles: Sequence[tuple[int, int]]
) -> list[Hold]:
    """Return the holds that the checker can compare, each shortened to the time in which it is certain.

    When servers fail, a peer (a worker of another library) does not learn in time that it has lost a lock.
    Therefore a peer's hold is certain only until the fault. Grants to peers before the full recovery are left
    out.
    """
    found = []
    for hold in holds:
        if hold.worker in peers:
            if any(began <= hold.granted < ended for began, ended in troubles):
                continue
            strikes = [began for began, _ in troubles if hold.granted < began < hold.until]
            hold = replace(hold, ended=min(strikes)) if strikes else hold
        elif any(
            intervention.node is None
            and intervention.session == hold.session
            and intervention.began <= hold.granted < intervention.known
            for intervention in excuses.interventions
        ):
            # The lock was granted in a session that was already closed, but the client could not know this
            # yet.
            continue
        # The deletion of a node ends all nested acquires of its hold, including those whose loss was not
        # reported.
        deletions = [
            intervention.began
            for intervention in excuses.interventions
            if intervention.took_node(hold.session, hold.node)
        ]
        hold = replace(hold, ended=min([hold.until, *deletions])) if deletions else hold
        if hold.until > hold.granted:
            found.append(hold)
    return found


def lost_at_first_check(first_checks: Iterable[FirstCheck], excuses: Excuses) -> list[str]:
    """Report leases whose first check failed before their term ended, and leases granted without a term."""
    return [
        f"lost at the first check: {check}"
        for check in first_checks
        if not check.passed
        and check.checked - check.held.granted < max(check.remaining * 1e9, 1)
        and not excuses.excuse(check.held, check.checked)
    ] + [
        f"granted without a term: {check}"
        for check in first_checks
        if check.remaining <= 0 and not excuses.excuse(check.held, check.checked)
    ]


def lost_early(losses: Iterable[Loss], excuses: Excuses) -> list[str]:
    """Report leases that were lost, without an excuse, before the end of their first term."""
    return [
        f"lost before its term was over: {loss}"
        for loss in losses
        if loss.t < loss.held.granted + loss.remaining * 1e9 and not excuses.excuse(loss.held, loss.t)
    ]


def granted_in_ended_sessions(
    first_checks: Iterable[FirstCheck], interventions: Sequence[Intervention]
) -> list[str]:
    """Report grants in sessions that their clients knew to be closed."""
    ends = {
        intervention.session: intervention.known
        for intervention in interventions
        if intervention.node is None
    }
    return [
        f"granted in a session that was over: {check}"
        for check in first_checks
        if check.held.session in ends and check.held.granted >= ends[check.held.session]
    ]


def late_writes(writes: Sequence[Write], excuses: Excuses) -> list[str]:
    found = []
    newest: dict[str, int] = {}
    for write in writes:
        if write.undid_fenced:
            found.append(f"a fenced write undid another write: {write}")
        late = write.refused or (write.undid_plain and not _is_effect_of_another(write, writes))
        if late and not excuses.excuse(write.held, write.t):
            found.append(f"late without an excuse: {write}")
        if not write.refused:
            if write.token <= newest.get(write.name, 0):
                found.append(f"an older token was used again: {write}")
            newest[write.name] = max(write.token, newest.get(write.name, 0))
    return found


def _is_effect_of_another(write: Write, writes: Sequence[Write]) -> bool:
    """Return whether the update that this write undid was a late write of another owner.

    The late write arrived while this write's owner held the lock. Only the plain register accepted it.
    """
    return any(
        late.refused and late.name == write.name and write.held.granted < late.t < write.t for late in writes
    )


def changed_while_reading(
    readings: Iterable[Reading], writes: Sequence[Write], excuses: Excuses
) -> list[str]:
    """Report registers that changed while a reader held the lock.

    Ignore changes by late writes, which only the plain register accepts. `late_writes` reports them.
    """
    found = []
    refused = [write for write in writes if write.refused]
    for reading in readings:
        late = any(write.name == reading.name and reading.began < write.t < reading.t for write in refused)
        changed = reading.changed_fenced or (reading.changed_plain and not late)
        if changed and not excuses.excuse(reading.held, reading.t):
            found.append(f"the register changed during a read hold: {reading}")
    return found


def too_many_inside(entries: Iterable[Entry], excuses: Excuses) -> list[str]:
    """Report rooms with more permit holders than permits."""
    found = []
    for entry in entries:
        inside = [held for held in (entry.held, *entry.others) if not excuses.excuse(held, entry.t)]
        if len(inside) > entry.room_for:
            found.append(f"{len(inside)} inside instead of {entry.room_for}: {entry}")
    return found
