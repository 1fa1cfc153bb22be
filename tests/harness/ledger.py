"""Converts the lines of a worker into holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.answers import Line
from harness.history import NEVER, UNKNOWN, Hold


@dataclass(frozen=True)
class Part:
    """One lock as it appears in the history. A multi lock (several locks in one object) has several parts."""

    path: str
    kind: str
    permits: int | None

    def holds_node(self, node: str) -> bool:
        """Return whether a node name, as reported by a lease, belongs to this lock."""
        return node.startswith(self.path + "/") and ("__READ__" in node) == (self.kind == "read")

    @property
    def facts(self) -> dict[str, Any]:
        """Fields in which a hold of this lock differs from a mutex's hold."""
        if self.kind == "semaphore":
            return {"permits": UNKNOWN if self.permits is None else self.permits}
        return {"shared": self.kind == "read"}


class _Level:
    """One lease: one level of an owner's reentrant hold."""

    def __init__(self, part: Part, owner: str, lock: str, line: Line) -> None:
        self.part = part
        self.owner = owner
        self.lock = lock
        self.line = line
        self.ended: int | None = None
        # Time at which the worker reported the loss.
        self.lost: int | None = None


class Ledger:
    """Converts a worker's lines into holds."""

    def __init__(
        self,
        worker: str,
        command: Callable[[int], Line],
        sent: Callable[[int], int],
        parts_of: Callable[[str], Sequence[Part]],
        uncertain_from: Callable[[int, int], int],
    ) -> None:
        """Read the lines of one worker.

        `command` and `sent` take a command's id. They return the command, and the time at which it was sent.
        `parts_of` returns the locks that a lock object acquires. `uncertain_from` returns the time from which
        a hold is uncertain, e.g. because the process was stopped. It takes the grant's time and session.
        """
        self._worker = worker
        self._command = command
        self._sent = sent
        self._parts_of = parts_of
        self._uncertain_from = uncertain_from
        self._levels: list[_Level] = []
        self._leases: dict[str, _Level] = {}
        self._holds: list[Hold] = []

    def holds(self, lines: Iterable[Line]) -> list[Hold]:
        """Return the holds. An owner's nested acquires of one lock (levels) are merged into one hold."""
        for line in lines:
            self._take(line)
        for level in self._levels:
            session = int(level.line.get("session", 0))
            self._end(level, self._uncertain_from(level.line["t"], session))
        return self._holds + self._merged()

    def _take(self, line: Line) -> None:
        event = line["event"]
        if event in {"lost", "presumed lost"}:
            level = self._leases.get(line["lease"])
            self._end(level, line["t"])
            # Lease names are reused, so the reported loss can be that of an earlier lease with this name.
            if event == "lost" and level is not None and line["t"] >= level.line["t"]:
                level.lost = line["t"]
        elif event == "held":
            self._holds.append(self._held(line))
        elif event == "acquired":
            command = self._command(line["id"])
            lock = command["lock"]
            parts = self._parts_of(lock)
            for lease in line.get("leases", [{**line, "lease": command["lease"]}]):
                # A single lock has one lease. With several locks, each lock has the lease whose node belongs
                # to it.
                part = parts[0] if len(parts) == 1 else next(p for p in parts if p.holds_node(lease["node"]))
                level = _Level(part, command["owner"], lock, {**lease, "t": line["t"], "id": line["id"]})
                self._levels.append(level)
                self._leases[lease["lease"]] = level
        elif event == "released":
            command = self._command(line["id"])
            if command["cmd"] == "unlock":
                mine = [
                    level
                    for level in self._levels
                    if level.ended is None
                    and (level.lock, level.owner) == (command["lock"], command["owner"])
                ]
                self._end(mine[-1] if mine else None, line["t0"])
            else:
                lease = command["lease"]
                for name, level in self._leases.items():
                    if name == lease or name.startswith(lease + "/"):
                        self._end(level, line["t0"])

    @staticmethod
    def _end(level: _Level | None, at: int) -> None:
        if level is not None and at < (NEVER if level.ended is None else level.ended):
            level.ended = at

    def _held(self, line: Line) -> Hold:
        command = self._command(line["id"])
        return Hold(
            path=command["path"],
            **Part(command["path"], command.get("kind", "mutex"), command.get("permits")).facts,
            worker=self._worker,
            owner=line["owner"],
            granted=line["t"],
            ended=line["t_end"],
            asked=line["t_wait"],
            **_node(line),
        )

    def _merged(self) -> list[Hold]:
        # Nested acquires (levels) of one owner on one node belong to one hold. Owners that share a node have
        # separate holds.
        groups: dict[tuple[Part, str, str | None], list[_Level]] = {}
        for index, level in enumerate(self._levels):
            node = level.line.get("node") or f"unknown-{index}"
            groups.setdefault((level.part, level.owner, node), []).append(level)
        holds = []
        for (part, owner, _node_name), levels in groups.items():
            ends = [level.ended for level in levels]
            losses = [level.lost for level in levels if level.lost is not None]
            holds.append(
                Hold(
                    path=part.path,
                    worker=self._worker,
                    owner=owner,
                    **part.facts,
                    asked=self._sent(levels[0].line["id"]),
                    granted=min(level.line["t"] for level in levels),
                    ended=None if None in ends else max(end for end in ends if end is not None),
                    # If every nested acquire was lost, the last reported loss is the latest possible end.
                    over=max(losses) if len(losses) == len(levels) else None,
                    **_node(levels[0].line),
                )
            )
        return holds


def _node(line: Line) -> dict[str, Any]:
    name = line.get("node")
    token = line.get("token")
    session = line.get("session")
    return {
        "session": None if session is None else int(session),
        "node": None if name is None else str(name).rsplit("/", 1)[-1],
        "token": None if token is None else int(token),
    }
