"""What each owner does, over and over: acquire, read, think, write, release."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from harness.nemesis.register import Registers
from harness.nemesis.station import Grant, Lock, Station
from harness.worker import Line, Pending, Worker

POLL = 0.01
HANG = 90.0
"""This many seconds without an answer are a hang, whatever was broken: no fault lasts a third as long."""

NAMES = 8
"""How many names of leases an owner uses in turn: a loss that is reported late must not be taken for that of
a newer lease."""

HOLD = (0.0, 0.02)
THINK = (0.02, 0.15)
PATIENCE = (0.2, 3.0)
IMPATIENT = 0.2
CANCELLED = 0.1
"""Seconds, and shares of all acquires: those with a time-out, and those that are cancelled."""


@dataclass
class Progress:
    """What all owners have done so far."""

    grants: Counter[str] = field(default_factory=Counter)
    """By lock and by station."""
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    paused: set[str] = field(default_factory=set)
    """Locks that no owner may ask for at the moment."""


class Contender(threading.Thread):
    """One owner at one station, for one lock."""

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
        """Contend until the campaign is over, with one worker after another."""
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
        """Whether a turn may fail: its worker was killed, or is a peer, which is then killed."""
        if worker.killed is None:
            if self._station.is_ours:
                return False
            self._progress.outcomes[f"error of {self._station}"] += 1
            self._station.is_broken.set()
        return self._progress.over.is_set() or self._station.await_another(worker)

    def _turn(self, worker: Worker) -> None:
        if self._lock.path in self._progress.paused:
            return
        lease = f"{self.name}-{next(self._numbers) % NAMES}"
        line = self._acquire(worker, lease)
        self._progress.outcomes[line["event"]] += 1
        if line["event"] != "acquired":
            return
        if self._station.is_ours and not self._is_proven(worker, lease, line):
            self._release(worker, lease)
            return
        self._progress.grants[self._lock.path] += 1
        self._progress.grants[str(self._station)] += 1
        node = str(line.get("node", "")).rsplit("/", 1)[-1]
        grant = Grant(worker, self._lock, lease, node, int(line.get("session", 0)))
        if self._lock.is_exclusive and self._station.is_ours:
            self._work(grant, int(line["token"]))
        else:
            self._hold(grant)
        self._release(worker, lease)

    def _acquire(self, worker: Worker, lease: str) -> Line:
        impatient = self._station.is_ours and self._random.random() < IMPATIENT
        patience = self._random.uniform(*PATIENCE) if impatient else None
        pending = worker.acquire(lease, lock=self._lock.name, owner=self.name, timeout=patience)
        cancellable = self._station.is_ours and not self._station.worker.surface.cancels_by_signal
        if cancellable and self._random.random() < CANCELLED:
            self._cancel(worker, pending)
        return self._answer(pending)

    def _cancel(self, worker: Worker, pending: Pending) -> None:
        if not pending.wait(self._random.uniform(*THINK)):
            self._answer(worker.send("cancel", target=pending.id))

    @staticmethod
    def _answer(pending: Pending) -> Line:
        return pending.result(HANG)

    def _is_proven(self, worker: Worker, lease: str, line: Line) -> bool:
        """Whether it was held when the grant was stamped: the process may be stopped before it stamps it."""
        answer = worker.check(lease).line(HANG)
        if answer["event"] == "value":
            return True
        assert answer.get("code") == "LOCK_LOST", answer
        worker.presume_lost(lease, at=line["t"])
        self._progress.outcomes["lost at once"] += 1
        return False

    def _work(self, grant: Grant, token: int) -> None:
        """Add one to the registers, unless the lease is lost meanwhile. No check before the write."""
        seen = self._tell(grant.worker, token, do="read")
        self._hold(grant)
        if grant.is_lost:
            self._progress.outcomes["lost"] += 1
            return
        self._tell(grant.worker, token, do="write", **seen)

    def _tell(self, worker: Worker, token: int, **what: object) -> dict[str, int]:
        text = json.dumps({"name": self._lock.path, "writer": worker.name, "token": token, **what})
        told = worker.send("tell", address=self._registers.address, text=text, owner=self.name)
        answer: dict[str, int] = json.loads(self._answer(told)["value"])
        return answer

    def _hold(self, grant: Grant) -> None:
        until = time.monotonic() + self._random.uniform(*HOLD)
        try:
            while self._station.detained.is_set() or time.monotonic() < until:
                if grant.is_lost or grant.worker.killed is not None or self._progress.over.is_set():
                    return
                if self._station.detained.is_set():
                    self._station.kept[self.name] = grant
                time.sleep(POLL)
        finally:
            self._station.kept.pop(self.name, None)

    def _release(self, worker: Worker, lease: str) -> None:
        self._answer(worker.send("release", lease=lease, owner=self.name))
