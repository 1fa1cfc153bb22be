"""The checker: reads the histories of any mix of workers and reports what was wrong with them.

A hold is *certain* from the stamp taken after the acquire returned to the stamp taken before the release was
called. Both stamps lie within the true hold, so if two certain holds overlap, the true ones overlapped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

SEQUENCED = re.compile(r"\d{10}$")
NEVER = 1 << 62
# The number of permits according to the other contenders.
UNKNOWN = 1 << 31


@dataclass(frozen=True)
class Hold:
    """One owner's certain hold of one lock, from its outermost acquire to its last release.

    A downgrade is two holds: the writer's, and the reader's that begins within it.

    Stamps in nanoseconds.
    """

    path: str
    worker: str
    owner: str
    granted: int
    # Just before the last release, or the moment at which the holder was killed; None while it holds.
    ended: int | None
    # A reader's hold: others may hold at the same time.
    shared: bool = False
    node: str | None = None
    token: int | None = None
    asked: int | None = None
    # A semaphore's: this many may hold at the same time.
    permits: int | None = None
    session: int | None = None
    # From when it could not last any longer: its loss was told, or the servers ended its session.
    over: int | None = None

    @property
    def until(self) -> int:
        """The end of what is certain; far in the future while the hold lasts."""
        return NEVER if self.ended is None else self.ended

    @property
    def sequence(self) -> int | None:
        """The place in the queue, if the node is known."""
        match = SEQUENCED.search(self.node or "")
        return int(match.group()) if match else None

    def __str__(self) -> str:
        end = "…" if self.ended is None else f"{self.ended / 1e9:.6f}"
        span = f"[{self.granted / 1e9:.6f}, {end}]"
        kind = "reader" if self.shared else "writer" if self.permits is None else "permit"
        return f"{kind} {self.worker}/{self.owner} {span} node={self.node} token={self.token}"


def by_path(holds: Iterable[Hold]) -> dict[str, list[Hold]]:
    """The holds of each path in the order of their grants."""
    paths: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        paths[hold.path].append(hold)
    for found in paths.values():
        found.sort(key=lambda hold: hold.granted)
    return paths


def _locks(holds: Iterable[Hold]) -> list[Hold]:
    """All but the permits: those have no order, and their tokens are not comparable."""
    return [hold for hold in holds if hold.permits is None]


def downgrades(ordered: Iterable[Hold]) -> dict[Hold, Hold]:
    """For each owner that took the reader's half while it held the writer's: both of those holds.

    The reader's node carries the writer's own number. It was created without a place of its own in the
    queue, so its czxid (Curator's token here; ours keeps the writer's) says nothing about the queue's order.
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
    """Whether a reader's hold is the rest of a downgrade whose writer's half was lost before it was granted.

    The reader's node stood in the writer's place from before the loss, so nobody else can have held.
    """
    same_owner = (hold.worker, hold.owner, hold.session) == (writer.worker, writer.owner, writer.session)
    same_place = (hold.sequence, hold.token) == (writer.sequence, writer.token)
    return hold.shared and not writer.shared and same_owner and same_place


def overlaps(holds: Iterable[Hold]) -> list[str]:
    """Every pair, not both readers, that certainly held one lock at the same time."""
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
    """Every permit that was certainly held while as many others as exist were held too."""
    found = []
    for path, ordered in by_path(hold for hold in holds if hold.permits is not None).items():
        numbers = {hold.permits for hold in ordered if hold.permits not in {None, UNKNOWN}}
        if len(numbers) > 1:
            found.append(f"numbers of permits on {path}: {numbers}")
        # A contender that does not know the number keeps to that of the others.
        number = next((hold.permits for hold in ordered if hold.permits in numbers), UNKNOWN)
        current: list[Hold] = []
        for hold in ordered:
            current = [earlier for earlier in current if hold.granted < earlier.until]
            current.append(hold)
            if len(current) > (number or 0):
                listed = ", ".join(map(str, current))
                found.append(f"{len(current)} of {number} permits on {path}: {listed}")
    return found


class _Foremost:
    """The youngest node granted so far, of readers or of writers."""

    def __init__(self) -> None:
        self.hold: Hold | None = None

    def note(self, hold: Hold, *, restarts: bool) -> None:
        """Take a grant into account."""
        if self.hold is None or _before(self.hold, hold) or (restarts and _younger(hold, self.hold)):
            self.hold = hold

    def overtook(self, hold: Hold, *, restarts: bool) -> Hold | None:
        """A contender granted before this one whose number is not smaller."""
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
"""Whether sequence numbers may have restarted, or the paths on which they may have."""


def misordered(holds: Iterable[Hold], *, restarts: Restarts = False) -> list[str]:
    """Every grant that overtook an earlier contender.

    A writer is never granted before an earlier contender, a reader never before an earlier writer. Readers
    that hold together have no order.

    Sequence numbers restart when an idle parent is reaped. Where a test cannot rule that out
    (``restarts``), a smaller number is forgiven if the token shows that the node is the younger one.
    """
    found = []
    for path, ordered in by_path(_locks(holds)).items():
        restarted = restarts if isinstance(restarts, bool) else path in restarts
        downgraded = downgrades(ordered)
        readers, writers = _Foremost(), _Foremost()
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
    """Every fencing token that did not grow from one node to the next.

    Tokens of readers that hold together are not comparable. A writer's token is greater than all before it, a
    reader's is greater than those of all writers before it.
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
    """Every node through which two owners were granted, or one owner twice: one of the two has none."""
    found = []
    for path, ordered in by_path(holds).items():
        known: dict[str, Hold] = {}
        for hold in ordered:
            if hold.node is not None and known.setdefault(hold.node, hold) is not hold:
                found.append(f"one node for two on {path}: {known[hold.node]} and {hold}")
    return found


def overheld(holds: Iterable[Hold]) -> list[str]:
    """Every hold that lasted longer than it could: its loss was told, or its session was over."""
    return [
        f"held past its end on {hold.path}: {hold}, over at {hold.over / 1e9:.6f}"
        for hold in holds
        if hold.over is not None and hold.until > hold.over
    ]


def unanswered(holds: Iterable[Hold]) -> list[str]:
    """Holds that never ended: a test that means to judge a finished history has lost something."""
    return [f"never released on {hold.path}: {hold}" for hold in holds if hold.ended is None]


def broken_rules(holds: Iterable[Hold], *, restarts: Restarts = False) -> dict[str, list[str]]:
    """Breaches by rule, with the names of tests/porcupine."""
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
    """Everything that is wrong with a history of mutexes, read/write locks and semaphores."""
    holds = list(holds)
    found = [problem for broken in broken_rules(holds, restarts=restarts).values() for problem in broken]
    return found if open_holds else found + unanswered(holds)


def assert_clean(holds: Iterable[Hold], *, at_least: int = 1, restarts: bool = False) -> None:
    """Fail unless the history is flawless and long enough to mean something."""
    holds = list(holds)
    found = problems(holds, restarts=restarts)
    assert not found, "\n".join(found)
    assert len(holds) >= at_least, f"{len(holds)} holds recorded, {at_least} expected"
