"""The loop of each owner: acquire, check the lease, work with the guarded data, release."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.answers import WorkerError
from harness.nemesis.record import FirstCheck
from harness.nemesis.register import Registers
from harness.nemesis.station import CONNECTING, Grant, Lock, Station
from harness.worker import Line, Pending, Worker

POLL = 0.01
HANG = 90.0
"""Time in seconds after which a missing reply counts as a hang, over three times as long as any fault."""

NAMES = 8
"""Number of lease names that an owner uses in turn. With only one name, a late report of a loss would apply
to the next lease."""

HOLD = (0.0, 0.02)
THINK = (0.02, 0.15)
PATIENCE = (0.2, 3.0)
TRIED = 0.15
IMPATIENT = 0.2
CANCELLED = 0.1
"""Ranges of seconds, and shares of all acquires:

- `HOLD` and `THINK`: duration of a hold, and of the pause after it.
- `PATIENCE`: time until an acquire times out or is cancelled.
- `TRIED`: acquires that do not wait. `IMPATIENT`: acquires with a timeout. `CANCELLED`: cancelled acquires.
"""

AGAIN = 0.25
DOWNGRADED = 0.35
"""Shares of mutex holds that are re-entered, and of writer holds that end with a downgrade."""

WORKLOADS = {"tried", "busy", "entered again", "downgraded", "several", "read", "visited", "kazoo's names"}
"""Outcomes that must occur in every campaign."""


@dataclass
class Progress:
    """Progress of all owners so far."""

    grants: Counter[str] = field(default_factory=Counter)
    """Number of grants, by lock and by station."""
    outcomes: Counter[str] = field(default_factory=Counter)
    first_checks: list[FirstCheck] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    paused: set[str] = field(default_factory=set)
    """Paths of locks that no owner may acquire now."""


class Contender(threading.Thread):
    """One owner of one lock at one station."""

    def __init__(
        self, station: Station, lock: Lock, registers: Registers, progress: Progress, seed: str
    ) -> None:
        super().__init__(name=f"{station}/{lock.name}", daemon=True)
        self._station = station
        self._lock = lock
        self._registers = registers
        self._progress = progress
        self._random = random.Random(f"{seed}/{self.name}")
        self._numbers = itertools.count()

    def run(self) -> None:
        """Contend until the campaign is over. A killed worker is replaced by the next one."""
        while not self._progress.over.is_set():
            worker = self._station.worker
            try:
                self._turn(worker)
            except Exception as error:
                if not self._is_excused(worker):
                    self._progress.failures.append(f"{self.name}: {type(error).__name__}: {error}")
                    return
            time.sleep(self._random.uniform(*THINK))

    def _is_excused(self, worker: Worker) -> bool:
        """Return whether to ignore a failed round.

        Ignore it if the worker was killed, or if the worker is a peer (a worker of another library). The
        campaign kills a peer after an error.
        """
        if worker.killed is None:
            if self._station.is_ours:
                return False
            self._progress.outcomes[f"error of {self._station}"] += 1
            self._station.is_broken.set()
        return self._progress.over.is_set() or self._station.await_another(worker)

    def _turn(self, worker: Worker) -> None:
        if self._progress.paused.intersection(self._lock.paths):
            return
        lease = f"{self.name}-{next(self._numbers) % NAMES}"
        line = self._ask(worker, lease)
        self._progress.outcomes[line["event"]] += 1
        if line["event"] != "acquired":
            return
        for path in self._lock.paths:
            self._progress.grants[path] += 1
        self._progress.grants[str(self._station)] += 1
        grants = self._grants(worker, self._lock, lease, line)
        if not self._station.is_ours:
            self._hold(grants)
        elif self._are_held(grants):
            lease = self._work(grants) or lease
        self._release(worker, lease)

    # Acquire.

    def _ask(self, worker: Worker, lease: str) -> Line:
        if not self._station.is_ours:
            return self._answer(worker.acquire(lease, lock=self._lock.name, owner=self.name))
        if self._random.random() < TRIED:
            return self._try(worker, lease)
        patience = self._random.uniform(*PATIENCE) if self._random.random() < IMPATIENT else None
        pending = worker.acquire(lease, lock=self._lock.name, owner=self.name, timeout=patience)
        cancellable = not worker.surface.cancels_by_signal
        if cancellable and self._random.random() < CANCELLED:
            self._cancel(worker, pending)
        return self._answer(pending)

    def _try(self, worker: Worker, lease: str) -> Line:
        """Try to acquire the lock without waiting.

        If no server replies, this fails after the connect timeout.
        """
        worker.lost.discard(lease)
        pending = worker.send("try", lock=self._lock.name, lease=lease, owner=self.name)
        self._progress.outcomes["tried"] += 1
        try:
            return self._answer(pending)
        except WorkerError as error:
            lasted = (error.t - pending.sent) / 1e9
            if error.code != "CONNECTION_FAILED" or lasted < CONNECTING * 0.99:
                raise AssertionError(f"a try failed after {lasted:.3f} s: {error}") from error
            return {"event": "out of reach", "t": error.t}

    def _cancel(self, worker: Worker, pending: Pending) -> None:
        if not pending.wait(self._random.uniform(*THINK)):
            self._answer(worker.send("cancel", target=pending.id))

    @staticmethod
    def _answer(pending: Pending) -> Line:
        return pending.result(HANG)

    def _grants(self, worker: Worker, lock: Lock, lease: str, line: Line) -> list[Grant]:
        """Return the grants of an acquire: one for a single lock, one for each member of a multi lock."""
        reported = [{**line, "lease": lease}] if not lock.members else line["leases"]
        by_path = {part.path: part for part in lock.members or (lock,)}
        found = []
        for one in reported:
            path, _, node = str(one.get("node", "")).rpartition("/")
            part = by_path.get(path, lock)
            session, token = int(one.get("session", 0)), int(one.get("token") or 0)
            remaining = float(one.get("remaining", 0))
            found.append(Grant(worker, part, one["lease"], node, session, token, line["t"], remaining))
        return found

    # Look.

    def _are_held(self, grants: list[Grant]) -> bool:
        first_checks = [self._is_held(grant) for grant in grants]
        return all(first_checks)

    def _is_held(self, grant: Grant) -> bool:
        """Record the first check of a grant. Return whether it is held."""
        answer = grant.worker.check(grant.lease).line(HANG)
        passed: bool = answer["event"] == "value"
        assert passed or answer.get("code") == "LOCK_LOST", answer
        self._progress.first_checks.append(
            FirstCheck(grant.lock.path, grant.held, grant.remaining, answer["t"], passed)
        )
        if not passed:
            # If the loss was wrong, the recorded check shows it.
            grant.worker.presume_lost(grant.lease, at=grant.granted)
            self._progress.outcomes["lost at once"] += 1
        return passed

    # Work.

    def _work(self, grants: list[Grant]) -> str | None:
        """Work with the guarded data. After a downgrade, return the reader's lease, else None."""
        kind = self._lock.kind
        if self._lock.naming == "kazoo":
            self._progress.outcomes["kazoo's names"] += 1
        if kind == "read":
            self._read(grants[0])
        elif kind == "semaphore":
            self._visit(grants[0])
        elif kind == "multi":
            self._update(grants)
            self._progress.outcomes["several"] += 1
        elif kind == "write" and self._random.random() < DOWNGRADED:
            return self._downgrade(grants[0])
        elif kind == "mutex" and self._random.random() < AGAIN:
            self._enter_again(grants[0])
        else:
            self._update(grants)
        return None

    def _update(self, grants: list[Grant]) -> None:
        """Increment each lock's register, unless the worker has reported the loss of a lease.

        The worker does not check its leases before the write, so it can write too late.
        """
        seen = [self._tell(grant, "read") for grant in grants]
        self._hold(grants)
        for grant, numbers in zip(grants, seen, strict=True):
            if not self._has_lost(grants):
                self._tell(grant, "write", **numbers)

    def _read(self, grant: Grant) -> None:
        """Check that a register does not change during the hold."""
        seen = self._tell(grant, "first read")
        self._hold([grant])
        if not self._has_lost([grant]):
            self._tell(grant, "read again", **seen)
            self._progress.outcomes["read"] += 1

    def _visit(self, grant: Grant) -> None:
        """Enter the room, hold, and leave."""
        self._tell(grant, "enter", room_for=self._lock.permits)
        self._hold([grant])
        self._has_lost([grant])
        self._tell(grant, "leave")
        self._progress.outcomes["visited"] += 1

    def _enter_again(self, grant: Grant) -> None:
        """Acquire the lock a second time (re-entry).

        The second lease has the same node unless the first is lost.
        """
        again = self._second(grant, self._lock)
        assert again.node != grant.node or again.token == grant.token, f"{grant} again: {again}"
        if again.node == grant.node:
            self._progress.outcomes["entered again"] += 1
            self._update([grant])
        elif self._is_held(again):
            answer = grant.worker.check(grant.lease).line(HANG)
            assert answer.get("code") == "LOCK_LOST", (
                f"it holds the lock, but the second acquire got another node: {grant} {again}"
            )
        self._release(again.worker, again.lease)

    def _downgrade(self, grant: Grant) -> str:
        """Write, then downgrade to a reader. Return the reader's lease."""
        self._update([grant])
        assert self._lock.other_half is not None
        reader = self._second(grant, self._lock.other_half)
        self._release(grant.worker, grant.lease)
        if self._is_held(reader):
            self._progress.outcomes["downgraded"] += reader.token == grant.token
            self._read(reader)
        return reader.lease

    def _second(self, grant: Grant, lock: Lock) -> Grant:
        lease = f"{grant.lease}+"
        line = self._answer(grant.worker.acquire(lease, lock=lock.name, owner=self.name))
        return self._grants(grant.worker, lock, lease, line)[0]

    def _has_lost(self, grants: list[Grant]) -> bool:
        lost = any(grant.is_lost for grant in grants)
        self._progress.outcomes["lost"] += lost
        return lost

    def _tell(self, grant: Grant, do: str, **what: Any) -> dict[str, Any]:
        text = json.dumps({"name": grant.lock.path, "do": do, "held": asdict(grant.held), **what})
        reported = grant.worker.send("tell", address=self._registers.address, text=text, owner=self.name)
        answer: dict[str, Any] = json.loads(self._answer(reported)["value"])
        return answer

    def _hold(self, grants: list[Grant]) -> None:
        until = time.monotonic() + self._random.uniform(*HOLD)
        try:
            while self._station.detained.is_set() or time.monotonic() < until:
                if any(grant.is_lost or grant.worker.killed is not None for grant in grants):
                    return
                if self._progress.over.is_set():
                    return
                if self._station.detained.is_set() and len(grants) == 1:
                    self._station.kept[self.name] = grants[0]
                time.sleep(POLL)
        finally:
            self._station.kept.pop(self.name, None)

    def _release(self, worker: Worker, lease: str) -> None:
        self._answer(worker.send("release", lease=lease, owner=self.name))
