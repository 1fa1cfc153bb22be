"""Runs the processes, reads their output, and kills one while it holds the lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO

from demo.record import Event, NotUnderstood, Record, What, parse
from demo.roles import Role
from harness.processes import reap, spawn

KILLED_IN_ROUND = 3
"""The victim is killed in this round, or in a later one if it releases before the kill."""

INTO_THE_HOLD = 0.1
"""Time in seconds for which the victim holds the lock before the kill."""


@dataclass
class DemoProcess:
    """One process."""

    lane: int
    role: Role
    process: Popen[bytes]
    listener: threading.Thread | None = None
    rounds: int = 0
    # Set once the process first waits for the lock, or has exited.
    queued: threading.Event = field(default_factory=threading.Event)
    # Set while the process holds the lock.
    holding: threading.Event = field(default_factory=threading.Event)
    killed: bool = False
    problem: str | None = None


class DemoRun:
    """All processes, from start to exit."""

    def __init__(self, roles: Sequence[Role], hosts: str, path: str, rounds: int, scratch: Path) -> None:
        self.record = Record()
        self.titles = [role.title for role in roles]
        self._actors: list[DemoProcess] = []
        self._errors = scratch
        for lane, role in enumerate(roles):
            with self._stderr(lane).open("wb") as errors:
                command = (*role.command, path, str(rounds))
                process = spawn(command, stdout=PIPE, stderr=errors, env={"ZKLOCK_HOSTS": hosts})
            actor = DemoProcess(lane, role, process)
            self._actors.append(actor)
            actor.listener = threading.Thread(target=self._listen, args=(actor,), daemon=True)
            actor.listener.start()

    def _stderr(self, lane: int) -> Path:
        return self._errors / f"stderr-{lane}.txt"

    def _listen(self, actor: DemoProcess) -> None:
        lines: IO[bytes] | None = actor.process.stdout
        assert lines is not None
        for line in lines:
            try:
                event = parse(actor.lane, line.decode(errors="replace"))
            except NotUnderstood as problem:
                actor.problem = str(problem)
                continue
            if event.what is What.HOLDS:
                actor.rounds += 1
                actor.holding.set()
            else:
                actor.holding.clear()
            self.record.add(event)
            actor.queued.set()
        # The output ends when the process exits.
        actor.process.wait()
        if not actor.killed:
            self.record.add(Event(actor.lane, time.monotonic_ns(), What.ENDED))
        actor.queued.set()

    def wait_queued(self, timeout: float) -> None:
        """Wait until every process has started an acquire."""
        deadline = time.monotonic() + timeout
        for actor in self._actors:
            actor.queued.wait(max(deadline - time.monotonic(), 0))

    def tick(self) -> bool:
        """Kill the victim when it is time. Return whether any process still runs."""
        for actor in self._actors:
            ready = actor.role.victim and actor.rounds >= KILLED_IN_ROUND and not actor.killed
            if ready and actor.holding.wait(0) and not self._quicker(actor):
                self._kill(actor)
        return any(actor.listener is not None and actor.listener.is_alive() for actor in self._actors)

    @staticmethod
    def _quicker(actor: DemoProcess) -> bool:
        deadline = time.monotonic() + INTO_THE_HOLD
        while time.monotonic() < deadline:
            time.sleep(0.01)
            if not actor.holding.is_set():
                return True
        return False

    def _kill(self, actor: DemoProcess) -> None:
        actor.killed = True
        # The event is recorded before the kill, so the recorded hold is not longer than the true one.
        self.record.add(Event(actor.lane, time.monotonic_ns(), What.KILLED))
        actor.process.kill()

    def stop(self) -> None:
        """Kill all remaining processes, and wait for the end of all output."""
        for actor in self._actors:
            if actor.process.poll() is None and not actor.killed:
                actor.problem = "did not end by itself"
            if actor.process.poll() is None:
                actor.process.kill()
            if actor.listener is not None:
                actor.listener.join(10)
            reap(actor.process)

    def problems(self) -> list[str]:
        """Return the problems of the processes. Call this after they have exited."""
        found = []
        for actor in self._actors:
            status = actor.process.returncode
            if actor.problem is None and status != 0 and not actor.killed:
                actor.problem = f"ended with status {status}"
            if actor.problem is None and actor.role.victim and not actor.killed:
                actor.problem = "was too quick to be killed while it held the lock: run the demo again"
            if actor.problem is not None:
                said = self._stderr(actor.lane).read_text(errors="replace").strip()
                found.append(f"{actor.role.title} {actor.problem}" + (f":\n{said}" if said else ""))
        return found
