"""Reads and writes histories as files, in the format of tests/porcupine/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.history import UNKNOWN, Hold, broken_rules

KINDS = {False: "write", True: "read"}


@dataclass(frozen=True)
class History:
    """The holds of all locks in one run."""

    name: str
    holds: tuple[Hold, ...]
    restarts: frozenset[str] = frozenset()
    """Paths on which sequence numbers might have restarted."""
    breaches: tuple[str, ...] | None = None
    """Rule violations found by the program that recorded the history; None if it does not check."""

    def broken_rules(self) -> dict[str, list[str]]:
        """Return the findings of our checker."""
        return broken_rules(self.holds, restarts=self.restarts)

    def lines(self) -> Iterator[str]:
        """Yield the history as lines of JSON."""
        head: dict[str, Any] = {"history": self.name, "restarts": sorted(self.restarts)}
        if self.breaches is not None:
            head["breaches"] = list(self.breaches)
        yield json.dumps(head)
        for hold in self.holds:
            yield json.dumps(_fields(hold))


def _fields(hold: Hold) -> dict[str, Any]:
    kind = KINDS[hold.shared] if hold.permits is None else "permit"
    fields = {
        "path": hold.path,
        "kind": kind,
        "worker": hold.worker,
        "owner": hold.owner,
        "node": hold.node,
        "session": hold.session,
        "token": hold.token,
        "permits": None if hold.permits == UNKNOWN else hold.permits,
        "asked": hold.asked,
        "granted": hold.granted,
        "ended": hold.ended,
        "over": hold.over,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _hold(line: Mapping[str, Any]) -> Hold:
    permit = line["kind"] == "permit"
    return Hold(
        path=line["path"],
        worker=line["worker"],
        owner=line["owner"],
        granted=line["granted"],
        ended=line.get("ended"),
        shared=line["kind"] == "read",
        node=line.get("node"),
        token=line.get("token"),
        asked=line.get("asked"),
        permits=line.get("permits", UNKNOWN) if permit else None,
        session=line.get("session"),
        over=line.get("over"),
    )


def write(file: Path, histories: Iterable[History]) -> None:
    """Write histories to a new file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lines:
        for history in histories:
            lines.writelines(f"{line}\n" for line in history.lines())


def read(file: Path) -> Iterator[History]:
    """Yield the histories in a file, in order."""
    head: dict[str, Any] | None = None
    holds: list[Hold] = []
    with file.open() as lines:
        for text in lines:
            line = json.loads(text)
            if "history" not in line:
                holds.append(_hold(line))
                continue
            if head is not None:
                yield _history(head, holds)
            head, holds = line, []
    if head is not None:
        yield _history(head, holds)


def _history(head: Mapping[str, Any], holds: Iterable[Hold]) -> History:
    breaches = head.get("breaches")
    return History(
        name=head["history"],
        holds=tuple(holds),
        restarts=frozenset(head.get("restarts", ())),
        breaches=None if breaches is None else tuple(breaches),
    )
