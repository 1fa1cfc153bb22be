"""Checks the histories of any mix of workers and reports violations of the locking rules.

A hold is *certain* between two stamps: one taken after the acquire returned, one taken before the release was
called. Both stamps lie within the real hold. Therefore, if two certain holds overlap, the real holds
overlapped too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

SEQUENCED = re.compile(r"\d{10}$")
NEVER = 1 << 62
# Number of permits that stands for "the same as the other contenders".
UNKNOWN = 1 << 31


@dataclass(frozen=True)
class Hold:
    """The time during which one owner certainly held one lock.

    A hold lasts from the first of the owner's nested acquires to the last release. It ends earlier if it
    becomes uncertain, e.g. because the process is stopped.

    A downgrade is two holds: the writer's hold, and the reader's hold that begins within it.

    Stamps are in nanoseconds.
    """

    path: str
    worker: str
    owner: str
    granted: int
    # Time just before the last release, or when the holder was killed. None while the hold lasts.
    ended: int | None
    # True for a reader's hold. Other readers can hold the lock at the same time.
    shared: bool = False
    node: str | None = None
    token: int | None = None
    asked: int | None = None
    # For a semaphore: the number of permits.
    permits: int | None = None
    session: int | None = None
    # Latest possible end of the hold: the time at which its loss was reported or its session was closed.
    over: int | None = None

    @property
    def until(self) -> int:
        """End of the certain hold; far in the future while the hold lasts."""
        return NEVER if self.ended is None else self.ended

    @property
    def sequence(self) -> int | None:
        """Sequence number of the node, if the node is known."""
        match = SEQUENCED.search(self.node or "")
        return int(match.group()) if match else None

    def __str__(self) -> str:
        end = "…" if self.ended is None else f"{self.ended / 1e9:.6f}"
        span = f"[{self.granted / 1e9:.6f}, {end}]"
        kind = "reader" if self.shared else "writer" if self.permits is None else "permit"
        return f"{kind} {self.worker}/{self.owner} {span} node={self.node} token={self.token}"


def by_path(holds: Iterable[Hold]) -> dict[str, list[Hold]]:
    """Return the holds of each path in the order of their grants."""
    paths: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        paths[hold.path].append(hold)
    for found in paths.values():
        found.sort(key=lambda hold: hold.granted)
    return paths


def _locks(holds: Iterable[Hold]) -> list[Hold]:
    """Return all holds except permits, which have no order and no comparable tokens."""
    return [hold for hold in holds if hold.permits is None]


def downgrades(ordered: Iterable[Hold]) -> dict[Hold, Hold]:
    """Return the downgrades: each reader's hold, mapped to the writer's hold in which it began.

    The reader's node takes over the writer's sequence number, but its czxid is later and says nothing
    about the order of the queue. Curator's token is this czxid. zklock keeps the writer's token.
    """
    writers: dict[tuple[str, str], Hold] = {}
    found = {}
    for hold in ordered:
        owner = (hold.worker, hold.owner)
        if not hold.shared:
            writers[owner] = hold
            continue
        writer = writers.get(owner)
        if writer is not None and hold.granted < writer.until and hold.sequence == writer.sequence:
            found[hold] = writer
    return found


def _continues(hold: Hold, writer: Hold) -> bool:
    """Return whether a reader's hold continues a writer's hold that was lost during a downgrade.

    The reader's node existed before the loss, with the writer's sequence number. Therefore no other client
    can have held the lock in between.
    """
    same_owner = (hold.worker, hold.owner, hold.session) == (writer.worker, writer.owner, writer.session)
    same_place = (hold.sequence, hold.token) == (writer.sequence, writer.token)
    return hold.shared and not writer.shared and same_owner and same_place


def overlaps(holds: Iterable[Hold]) -> list[str]:
    """Report every pair of holds of one lock that certainly overlapped, except pairs of readers."""
    found = []
    for path, ordered in by_path(_locks(holds)).items():
        downgraded = downgrades(ordered)
        current: list[Hold] = []
        for hold in ordered:
            current = [earlier for earlier in current if hold.granted < earlier.until]
            for earlier in current:
                if not (earlier.shared and hold.shared) and downgraded.get(hold) is not earlier:
                    found.append(f"overlap on {path}: {earlier} and {hold}")
            current.append(hold)
    return found


def oversubscribed(holds: Iterable[Hold]) -> list[str]:
    """Report every permit that was granted while all permits were certainly held."""
    found = []
    for path, ordered in by_path(hold for hold in holds if hold.permits is not None).items():
        numbers = {hold.permits for hold in ordered if hold.permits not in {None, UNKNOWN}}
        if len(numbers) > 1:
            found.append(f"numbers of permits on {path}: {numbers}")
        # A contender that does not state the number of permits uses the other contenders' number.
        number = next((hold.permits for hold in ordered if hold.permits in numbers), UNKNOWN)
        current: list[Hold] = []
        for hold in ordered:
            current = [earlier for earlier in current if hold.granted < earlier.until]
            current.append(hold)
            if len(current) > (number or 0):
                listed = ", ".join(map(str, current))
                found.append(f"{len(current)} of {number} permits on {path}: {listed}")
    return found


class _YoungestGranted:
    """The youngest node granted so far to readers, or to writers."""

    def __init__(self) -> None:
        self.hold: Hold | None = None

    def note(self, hold: Hold, *, restarts: bool) -> None:
        """Record a grant."""
        if self.hold is None or _before(self.hold, hold) or (restarts and _younger(hold, self.hold)):
            self.hold = hold

    def overtook(self, hold: Hold, *, restarts: bool) -> Hold | None:
        """Return an earlier grant to a contender that was behind this one in the queue, or None."""
        if self.hold is None or _before(self.hold, hold):
            return None
        if restarts and _younger(hold, self.hold) and hold.node != self.hold.node:
            self.hold = None
            return None
        return self.hold


def _before(first: Hold, second: Hold) -> bool:
    assert first.sequence is not None
    assert second.sequence is not None
    return first.sequence < second.sequence


def _younger(hold: Hold, than: Hold) -> bool:
    return hold.token is not None and than.token is not None and hold.token > than.token


Restarts = bool | Collection[str]
"""The paths on which sequence numbers can restart, or True for all paths."""


def misordered(holds: Iterable[Hold], *, restarts: Restarts = False) -> list[str]:
    """Report every grant that overtook an earlier contender.

    A writer is never granted the lock before a contender ahead of it, and a reader never before a writer
    ahead of it. Readers that hold the lock together have no order.

    Sequence numbers restart when the server deletes an idle parent. With ``restarts``, a smaller number is
    no error if the fencing token is larger, because the node was then created later.
    """
    found = []
    for path, ordered in by_path(_locks(holds)).items():
        restarted = restarts if isinstance(restarts, bool) else path in restarts
        downgraded = downgrades(ordered)
        readers, writers = _YoungestGranted(), _YoungestGranted()
        for hold in ordered:
            if hold.sequence is None or hold in downgraded:
                continue
            for foremost in (writers,) if hold.shared else (writers, readers):
                first = foremost.overtook(hold, restarts=restarted)
                if first is not None and not _continues(hold, first):
                    found.append(f"out of order on {path}: {first} before {hold}")
            (readers if hold.shared else writers).note(hold, restarts=restarted)
    return found


def shrinking_tokens(holds: Iterable[Hold]) -> list[str]:
    """Report every fencing token that is too small.

    A writer's token is greater than all earlier tokens. A reader's token is greater than the tokens of all
    earlier writers.
    """
    found = []
    for path, ordered in by_path(_locks(holds)).items():
        downgraded = downgrades(ordered)
        writer: Hold | None = None
        reader: Hold | None = None
        for hold in ordered:
            if hold.token is None:
                continue
            if hold in downgraded:
                if hold.token < (downgraded[hold].token or 0):
                    found.append(f"token fell on {path}: {downgraded[hold]} before its downgrade {hold}")
                continue
            for first in (writer,) if hold.shared else (writer, reader):
                if first is not None and hold.token <= (first.token or 0) and not _continues(hold, first):
                    found.append(f"token did not grow on {path}: {first} before {hold}")
            if not hold.shared:
                writer = hold
            elif reader is None or hold.token > (reader.token or 0):
                reader = hold
    return found


def shared_nodes(holds: Iterable[Hold]) -> list[str]:
    """Report every node that two holds share."""
    found = []
    for path, ordered in by_path(holds).items():
        known: dict[str, Hold] = {}
        for hold in ordered:
            if hold.node is not None and known.setdefault(hold.node, hold) is not hold:
                found.append(f"one node for two on {path}: {known[hold.node]} and {hold}")
    return found


def overheld(holds: Iterable[Hold]) -> list[str]:
    """Report every hold that continued after its loss was reported or its session was closed."""
    return [
        f"held past its end on {hold.path}: {hold}, over at {hold.over / 1e9:.6f}"
        for hold in holds
        if hold.over is not None and hold.until > hold.over
    ]


def unanswered(holds: Iterable[Hold]) -> list[str]:
    """Report holds that were never released. In a finished history, each of them is an error."""
    return [f"never released on {hold.path}: {hold}" for hold in holds if hold.ended is None]


def broken_rules(holds: Iterable[Hold], *, restarts: Restarts = False) -> dict[str, list[str]]:
    """Return the breaches by rule, with the rule names of tests/porcupine."""
    holds = list(holds)
    found = {
        "overlap": overlaps(holds),
        "too many permits": oversubscribed(holds),
        "turn stolen": misordered(holds, restarts=restarts),
        "token fell": shrinking_tokens(holds),
        "one node for two": shared_nodes(holds),
        "held past its end": overheld(holds),
    }
    return {rule: problems for rule, problems in found.items() if problems}


def problems(holds: Iterable[Hold], *, restarts: Restarts = False, open_holds: bool = False) -> list[str]:
    holds = list(holds)
    found = [problem for broken in broken_rules(holds, restarts=restarts).values() for problem in broken]
    return found if open_holds else found + unanswered(holds)


def assert_clean(holds: Iterable[Hold], *, at_least: int = 1, restarts: bool = False) -> None:
    """Fail if the history has a problem, or fewer than `at_least` holds."""
    holds = list(holds)
    found = problems(holds, restarts=restarts)
    assert not found, "\n".join(found)
    assert len(holds) >= at_least, f"{len(holds)} holds recorded, {at_least} expected"
