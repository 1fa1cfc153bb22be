"""The checker: reads the histories of any mix of workers and says what was wrong with them.

A hold is *certain* from the stamp taken after the acquire returned to the stamp taken before the release was
called. Both stamps lie inside the true hold, so two certain holds that overlap overlapped in truth.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

SEQUENCED = re.compile(r"\d{10}$")
NEVER = 1 << 62


@dataclass(frozen=True)
class Hold:
    """One owner's certain hold of one lock, from its outermost acquire to its last release.

    Stamps in nanoseconds.
    """

    path: str
    worker: str
    owner: str
    granted: int
    # Just before the last release, or the moment that the holder was killed; None while it holds.
    ended: int | None
    node: str | None = None
    token: int | None = None
    asked: int | None = None

    @property
    def until(self) -> int:
        """The end of what is certain; far away while the hold goes on."""
        return NEVER if self.ended is None else self.ended

    @property
    def sequence(self) -> int | None:
        """The place in the queue, where the node is known."""
        match = SEQUENCED.search(self.node or "")
        return int(match.group()) if match else None

    def __str__(self) -> str:
        end = "…" if self.ended is None else f"{self.ended / 1e9:.6f}"
        span = f"[{self.granted / 1e9:.6f}, {end}]"
        return f"{self.worker}/{self.owner} {span} node={self.node} token={self.token}"


def by_path(holds: Iterable[Hold]) -> dict[str, list[Hold]]:
    """The holds of each path in the order of their grants."""
    paths: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        paths[hold.path].append(hold)
    for found in paths.values():
        found.sort(key=lambda hold: hold.granted)
    return paths


def overlaps(holds: Iterable[Hold]) -> list[str]:
    """Every pair of neighbours that certainly held one exclusive lock at the same time."""
    found = []
    for path, ordered in by_path(holds).items():
        current: Hold | None = None
        for hold in ordered:
            if current is not None and hold.granted < current.until:
                found.append(f"overlap on {path}: {current} and {hold}")
            if current is None or hold.until > current.until:
                current = hold
    return found


def misordered(holds: Iterable[Hold], *, restarts: bool = False) -> list[str]:
    """Every grant that overtook an earlier contender.

    Sequence numbers restart when an idle parent was reaped. Where a test cannot rule that out
    (``restarts``), a smaller number is forgiven if the token says that the node is the younger one.
    """
    found = []
    for path, ordered in by_path(holds).items():
        known = [hold for hold in ordered if hold.sequence is not None]
        for first, second in pairwise(known):
            assert first.sequence is not None
            assert second.sequence is not None
            if second.sequence > first.sequence:
                continue
            younger = first.token is not None and second.token is not None and second.token > first.token
            if not (restarts and younger and second.node != first.node):
                found.append(f"out of order on {path}: {first} before {second}")
    return found


def shrinking_tokens(holds: Iterable[Hold]) -> list[str]:
    """Every fencing token that did not grow from one node to the next."""
    found = []
    for path, ordered in by_path(holds).items():
        known = [hold for hold in ordered if hold.token is not None]
        for first, second in pairwise(known):
            assert first.token is not None
            assert second.token is not None
            if second.token <= first.token:
                found.append(f"token did not grow on {path}: {first} before {second}")
    return found


def unanswered(holds: Iterable[Hold]) -> list[str]:
    """Holds that nobody ended: a test that means to look at a finished history has lost something."""
    return [f"never released on {hold.path}: {hold}" for hold in holds if hold.ended is None]


def problems(holds: Iterable[Hold], *, restarts: bool = False, open_holds: bool = False) -> list[str]:
    """Everything that is wrong with a history of exclusive locks."""
    holds = list(holds)
    found = overlaps(holds) + misordered(holds, restarts=restarts) + shrinking_tokens(holds)
    return found if open_holds else found + unanswered(holds)


def assert_clean(holds: Iterable[Hold], *, at_least: int = 1, restarts: bool = False) -> None:
    """Fail unless the history is flawless and long enough to mean something."""
    holds = list(holds)
    found = problems(holds, restarts=restarts)
    assert not found, "\n".join(found)
    assert len(holds) >= at_least, f"{len(holds)} holds recorded, {at_least} expected"
